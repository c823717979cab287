"""python benchmarks/loading.py: batches from the cache of decoded images, against decoding the PNG files every time.

Both sides cut the same crops out of the same images and hand over the same tensors. Each round makes one batch in
either way and does one training step with it; times are ratios within a round. CamVid is taken from --data-dir (by
default the environment variable DATA_DIR) where that has it, and otherwise a set of generated scenes of the same size.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from timing import interleaved_seconds, median_ratio, print_table, setting
from torch import Tensor, nn

from concrete_dropout.data.camvid import CamVidData
from concrete_dropout.data.camvid_sets import VOID_LABEL, camvid_pairs
from concrete_dropout.data.crops import CropDraws, Draw, ImageBatches
from concrete_dropout.data.label_files import Pair
from concrete_dropout.data.labelled_images import VOID
from concrete_dropout.data.scene_street import paint_scene
from concrete_dropout.models.fc_densenet import PRESETS, FCDenseNet

# case: scale, crop, batch size, network. Of the published networks the quickest, which waits least for its batches.
CASES: dict[str, tuple[float, int, int, str]] = {
    "camvid_small: half size, 4 crops of 128, small network": (0.5, 128, 4, "small"),
    "camvid: full size, 3 crops of 224, FC-DenseNet56": (1.0, 224, 3, "56"),
}
TARGET_SHARE = 0.02  # of a training step


@contextmanager
def images_on_disk(data_dir: str | None) -> Iterator[tuple[Path, str]]:
    """A folder with CamVid, and what it is."""
    if data_dir and (Path(data_dir) / "camvid").is_dir():
        yield Path(data_dir), "CamVid"
        return
    with tempfile.TemporaryDirectory() as folder:
        for part, count in {"train": 24, "val": 1, "test": 1}.items():
            for kind in ("", "annot"):
                (Path(folder) / "camvid" / f"{part}{kind}").mkdir(parents=True)
            names = [f"{number}.png" for number in range(count)]
            for name in names:
                planes = paint_scene(np.random.default_rng(), 360, 480)
                labels = np.where(planes[3] == VOID, VOID_LABEL, planes[3]).astype(np.uint8)
                Image.fromarray(planes[:3].transpose(1, 2, 0)).save(Path(folder) / "camvid" / part / name)
                Image.fromarray(labels).save(Path(folder) / "camvid" / f"{part}annot" / name)
            lines = [f"/{part}/{name} /{part}annot/{name}\n" for name in names]
            (Path(folder) / "camvid" / f"{part}.txt").write_text("".join(lines))
        yield Path(folder), "generated scenes"


def decoded_crop(pair: Pair, draw: Draw, scale: float, crop: int) -> tuple[Tensor, Tensor]:
    """What a data set without a cache does for each image, as leanly as Pillow allows."""
    with Image.open(pair.image) as image, Image.open(pair.mask) as mask:
        size = round(scale * image.width), round(scale * image.height)
        pixels = np.asarray(image.reduce(round(1 / scale)) if scale < 1 else image)
        labels = np.asarray(
            mask.convert("L").resize(size, Image.Resampling.NEAREST) if scale < 1 else mask.convert("L")
        )
    top, left = int(draw.down * (size[1] - crop + 1)), int(draw.right * (size[0] - crop + 1))
    place = slice(top, top + crop), slice(left, left + crop)
    x, y = torch.tensor(pixels[place]).permute(2, 0, 1) / 255, torch.tensor(labels[place]).long()
    x, y = (x.flip(-1), y.flip(-1)) if draw.flip else (x, y)
    return x, y.masked_fill(y == VOID_LABEL, VOID)


def measure(case: str, data_dir: Path, rounds: int) -> dict[str, Any]:
    """Seconds and ratios of one case."""
    scale, crop, batch_size, preset = CASES[case]
    with tempfile.TemporaryDirectory() as cache:
        data = CamVidData(data_dir, cache_dir=cache, scale=scale, crop=crop, batch_size=batch_size, download=False)
        pairs = camvid_pairs(data_dir / "camvid")["train"]
        loader = data.train_dataloader()
        cached = loader.dataset
        assert isinstance(cached, ImageBatches)
        draws = iter(CropDraws(len(pairs), batch_size * (rounds + 2), flips=True))
        network = FCDenseNet(3, data.spec.num_classes, **PRESETS[preset])
        optimiser = torch.optim.RMSprop(network.parameters(), lr=1e-3)
        chosen: list[Draw] = []
        batch: dict[str, Any] = {}

        def from_cache() -> None:
            chosen[:] = [next(draws) for _ in range(batch_size)]
            batch["cache"] = cached.__getitems__(chosen)

        def from_files() -> None:
            crops = [decoded_crop(pairs[draw.number], draw, scale, crop) for draw in chosen]
            batch["files"] = torch.stack([x for x, _ in crops]), torch.stack([y for _, y in crops])

        def step() -> None:
            (x, y), (same_x, same_y) = batch["cache"], batch["files"]
            assert torch.equal(y, same_y)
            assert (x - same_x).abs().max() < 0.005  # halves are rounded in different ways
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(x), y, ignore_index=VOID).backward()
            optimiser.step()

        functions: dict[str, Callable[[], None]] = {"cache": from_cache, "files": from_files, "step": step}
        seconds = interleaved_seconds(functions, rounds, warmup=2)
        epoch = interleaved_seconds({"epoch": lambda: sum(len(y) for _, y in loader)}, rounds=3, warmup=1)["epoch"]
    return {
        "case": case,
        "cache_ms_per_image": 1e3 * statistics.median(seconds["cache"]) / batch_size,
        "files_ms_per_image": 1e3 * statistics.median(seconds["files"]) / batch_size,
        "loader_images_per_second": len(loader) * batch_size / statistics.median(epoch),
        "times_faster_than_files": median_ratio(seconds["files"], seconds["cache"]),
        "share_of_step_cache": median_ratio(seconds["cache"], seconds["step"]),
        "share_of_step_files": median_ratio(seconds["files"], seconds["step"]),
        "step_seconds": statistics.median(seconds["step"]),
    }


def main() -> None:
    """Measure all cases, print a table, and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds per case (default 15)")
    parser.add_argument("--data-dir", default=os.environ.get("DATA_DIR"), help="folder that has camvid")
    options = parser.parse_args()
    torch.manual_seed(0)
    with images_on_disk(options.data_dir) as (folder, what):
        print(f"{setting()}, {options.rounds} rounds, {what}\n")
        results = [measure(case, folder, options.rounds) for case in CASES]
    rows: list[tuple[str, ...]] = [
        (
            result["case"],
            f"{result['cache_ms_per_image']:.2f} ms",
            f"{result['files_ms_per_image']:.2f} ms",
            f"{result['times_faster_than_files']:.0f}x",
            f"{result['loader_images_per_second']:.0f}/s",
            f"{100 * result['share_of_step_cache']:.2f} % (<= {100 * TARGET_SHARE:g} %)",
            f"{100 * result['share_of_step_files']:.1f} %",
        )
        for result in results
    ]
    header = ("image from", "cache", "files", "faster", "loader", "cache / step", "files / step")
    print_table(header, rows)
    print(json.dumps({"benchmark": "loading", "results": results}))


if __name__ == "__main__":
    main()
