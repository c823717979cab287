"""The sections of an agent's report: rewards, videos, what the model knows of its errors, predicted bundles."""

from __future__ import annotations

from functools import partial
from typing import Any

from concrete_dropout.plots.calibration import coverage_curve
from concrete_dropout.plots.control import over_episodes, paths_over_time, phase
from concrete_dropout.report.components import Card, Section, cards, figure, grid, paragraph, table
from concrete_dropout.report.control_record import best, component, component_names, episodes, film, line, reward, rival
from concrete_dropout.report.html import join, tag
from concrete_dropout.report.layers import Layer
from concrete_dropout.report.record import Record, dicts, finite, mapping
from concrete_dropout.report.text import change, number, probability, whole

RIVALS = {"draws": "policy of function draws", "scout": "scout of the mean model"}
PHASES = ((2, 3), (0, 1))  # of a cart-pole: angle and its speed, position and its speed


def agent_lead(record: Record, layers: list[Layer]) -> str:
    """One sentence about the whole run."""
    top = best(record)
    kind = str(record.run.get("dropout") or "")
    model = {"none": "without dropout", "fixed": "with fixed dropout"}.get(kind, "with learned dropout probabilities")
    return (
        f"An agent whose dynamics model is trained {model} reached a mean true reward of {number(reward(top), 4)} in "
        f"episode {whole(top['episode'])} of {whole(len(episodes(record)))}."
    )


def results(record: Record, layers: list[Layer]) -> Section:
    """Headline numbers and a table of all episodes."""
    found = episodes(record)
    last, top = found[-1], best(record)
    starts = whole(mapping(last.get("reward")).get("starts"))
    items = [
        Card("Best reward", number(reward(top), 4), "", f"Mean over {starts} starts, episode {whole(top['episode'])}."),
        Card(
            "Last reward",
            f"{number(reward(last), 4)} ± {number(reward(last, 'std'), 2)}",
            "",
            "Mean and standard deviation over starts, in the true world.",
        ),
        Card("In the model", number(last.get("model_reward"), 4), "", "What the last policy had promised."),
        Card(
            "Epistemic / error",
            number(last.get("honesty")),
            "",
            "One step ahead on held-out episodes, errors without noise; 1 is honest, below 1 too sure.",
        ),
        Card(
            "Calibration RMSE",
            number(mapping(last.get("far")).get("calibration_rmse")),
            "",
            "Of predictions over whole episodes; 0 is perfect.",
        ),
    ]
    intro = (
        "Rewards are true ones, of true states; the shaped reward of the search is in no number here. Each policy is "
        "judged from starts of its own, in episodes that the model is not trained on. The policy of an episode is the "
        "one that function draws promise most of, or a scout that has acted better than that in the true world."
    )
    return Section("results", "Results", join([paragraph(intro), cards(items), _table(record)]))


def learning(record: Record, layers: list[Layer]) -> Section:
    """Rewards over episodes."""
    lines = {
        "true reward": line(record, reward),
        "in the model": line(record, lambda entry: finite(entry.get("model_reward"))),
    }
    band = {"true reward": line(record, lambda entry: reward(entry, "std"))[1]}
    made = over_episodes(lines, "Reward over episodes", "Reward of an episode", spread=band)
    caption = "Band: one standard deviation over starts. A gap to the model's promise is what the model got wrong."
    parts = [figure(made, caption)]
    both = {label: line(record, partial(rival, name=name)) for name, label in RIVALS.items()}
    if all(points[0] for points in both.values()):
        made = over_episodes(both, "Function draws or the mean model", "True reward")
        parts.append(
            figure(
                made,
                "True rewards of the policy that function draws promise most of, and of the best scout, which climbed "
                "the mean model alone. What planning under uncertainty is worth; several seeds are needed to tell.",
            )
        )
    return Section("learning", "Learning", join(parts))


def videos(record: Record, layers: list[Layer]) -> Section:
    """The policy in motion at the first, a middle and the last episode."""
    shown = [
        film(record.videos[str(entry["video"])], f"Episode {whole(entry['episode'])}: reward {number(reward(entry))}")
        for entry in episodes(record)
        if str(entry.get("video")) in record.videos
    ]
    intro = paragraph("All from the same start. The green dot is where the tip should be, the blue bar is the force.")
    return Section("videos", "The policy in motion", join([intro, tag("div", *shown, class_="panels")]))


def uncertainty(record: Record, layers: list[Layer]) -> Section:
    """Epistemic standard deviation and error of every component, over episodes."""
    made = [
        figure(
            over_episodes(
                {
                    "epistemic std": line(record, lambda entry, name=name: component(entry, name, "epistemic")),
                    "error, RMS": line(record, lambda entry, name=name: component(entry, name, "error")),
                    "noise std": line(record, lambda entry, name=name: component(entry, name, "aleatoric")),
                },
                f"{name}, one step ahead",
                "Units of the state",
            ),
            alt=f"Epistemic standard deviation and error of {name} over episodes",
        )
        for name in component_names(record)
    ]
    intro = paragraph(
        "One step ahead, on whole episodes that were never trained on: those in which the policy of the episode was "
        "judged. An honest model is about as unsure as it is wrong."
    )
    return Section("uncertainty", "What the model knows of its errors", join([intro, grid(made)]))


def predictions(record: Record, layers: list[Layer]) -> Section:
    """Bundles of particles against what happened, at the first, a middle and the last episode."""
    found = [entry for entry in episodes(record) if dicts(mapping(entry.get("far")).get("bundles"))]
    chosen = [found[0], found[len(found) // 2], found[-1]] if len(found) > 2 else found
    names = component_names(record)
    parts: list[object] = [
        paragraph(
            "Every thin line is one function drawn from the model, which follows the actions of a held-out episode "
            "from its start. What happened should look like one of them."
        )
    ]
    for entry in chosen:
        bundle = dicts(mapping(entry.get("far")).get("bundles"))[0]
        title = f"Episode {whole(entry['episode'])}"
        plots = [phase(bundle, names, axes, title) for axes in PHASES if max(axes) < len(names)]
        plots = plots or [paths_over_time(bundle, names, i) for i in range(len(names))]
        parts.append(grid(figure(made, alt=f"{title}: predicted and actual path") for made in plots))
    curves = {f"episode {whole(entry['episode'])}": _coverage(entry) for entry in chosen}
    parts.append(figure(coverage_curve(curves), "Coverage of intervals of predictions, over all steps of an episode."))
    return Section("predictions", "Predicted episodes", join(parts))


def _coverage(entry: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    far = mapping(entry.get("far"))
    return far.get("expected") or [], far.get("observed") or []


def _actor(entry: dict[str, Any]) -> str:
    """Who made the experience of an episode, and what came of it; "chosen" where that made a scout the policy."""
    if "scout_acted" not in entry:  # of an earlier version
        return "–"
    who = "scout" if entry["scout_acted"] else "policy"
    return f"{who}, {number(entry.get('acted_return'), 3)}{', chosen' if entry.get('scout_chosen') else ''}"


def _table(record: Record) -> object:
    rows = [
        [
            whole(entry["episode"]),
            whole(entry.get("num_train")),
            f"{number(reward(entry), 4)} ± {number(reward(entry, 'std'), 2)}",
            number(entry.get("model_reward"), 4),
            _actor(entry),
            " ".join(probability(p) for p in mapping(entry.get("p")).values()) or "–",
            " ".join(change(value) for value in mapping(entry.get("p_change")).values()) or "–",
            number(entry.get("honesty")),
            number(mapping(entry.get("far")).get("calibration_rmse")),
            number(entry.get("seconds")),
        ]
        for entry in episodes(record)
    ]
    header = [
        "Episode",
        "N",
        "Reward",
        "In the model",
        "Who acted",
        "p",
        "Trend of p",
        "Epistemic / error",
        "Calibration RMSE",
        "Seconds",
    ]
    return table(
        header,
        rows,
        "All episodes; the trend is the change of p over the last fifth of the model's steps",
        numeric=range(1, len(header)),
    )
