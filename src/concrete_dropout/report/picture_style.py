"""Style sheet of pictures: tiles, the gallery, and maps whose steps are chosen by buttons without any script."""

from __future__ import annotations

MAX_STEPS = 12  # buttons of a set of maps
_SHOWN = ",".join(f'.maps:has(.steps [value="{i}"]:checked) .at-{i}' for i in range(MAX_STEPS))

PICTURE_STYLE = """
.tile{margin:0}
.tile img{display:block;width:100%;height:auto;border-radius:4px}
.tile img.small{image-rendering:pixelated}
.tile figcaption{font-size:.82rem;margin-top:3px;line-height:1.35}
.absent{display:grid;place-items:center;min-height:5em;border:1px dashed #b8c1cc;border-radius:4px;color:var(--muted);
font-size:.82rem}
.gallery{list-style:none;display:grid;grid-template-columns:repeat(auto-fill,minmax(138px,1fr));gap:14px;padding:0;
margin:0 0 24px}
.gallery li{border:1px solid var(--line);border-radius:10px;padding:10px;background:var(--soft)}
.gallery img{aspect-ratio:1;object-fit:contain;background:#fff}
.gallery figcaption{color:var(--ink);margin-top:8px}
.gallery figcaption span{display:block}
.gallery .detail{color:var(--muted);font-size:.76rem}
.swatch{display:inline-block;width:.85em;height:.85em;border-radius:3px;vertical-align:-.08em;
box-shadow:inset 0 0 0 1px rgba(0,0,0,.25)}
.swatch,.bar,.steps span,.gallery li{print-color-adjust:exact;-webkit-print-color-adjust:exact}
.keys{display:flex;flex-wrap:wrap;gap:8px 40px;align-items:flex-start;margin:0 0 8px}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:3px 14px;padding:0;margin:0;font-size:.85rem;flex:3 1 300px}
.scale{flex:1 1 260px;max-width:420px;font-size:.8rem;color:var(--muted);padding-right:5.8em}
.scale p{margin:0 -5.8em 4px 0}
.bar{height:12px;border-radius:3px}
.ticks{position:relative;height:1.4em;margin:2px 0 0}
.tick{position:absolute;transform:translateX(-50%);white-space:nowrap}
.tick:first-child{transform:none}
.what{position:absolute;left:calc(100% + 1.4em);white-space:nowrap}
.steps{border:0;padding:6px 0;margin:0 0 10px;display:flex;flex-wrap:wrap;gap:6px;align-items:center;position:sticky;
top:0;background:#fff;z-index:1}
.steps legend{float:left;padding:0 8px 0 0;font-size:.88rem;color:var(--muted)}
.steps input{position:absolute;opacity:0}
.steps span{display:block;padding:3px 12px;border:1px solid #b8c1cc;border-radius:99px;font-size:.88rem;cursor:pointer;
font-variant-numeric:tabular-nums}
.steps input:checked+span{background:var(--accent);border-color:var(--accent);color:#fff}
.steps input:focus-visible+span{outline:2px solid var(--accent);outline-offset:2px}
.scene{margin:0 0 22px}
h4{font-size:.92rem;margin:0 0 6px;font-weight:600}
.panels{display:grid;grid-template-columns:repeat(6,minmax(0,1fr));gap:8px}
.at{display:none}
@SHOWN@{display:contents}
.maps:not(:has(.steps)) .at{display:contents}
@supports not selector(:has(a)){.at.last{display:contents}}
@media screen and (min-width:1080px){.scene{width:min(1320px,96vw);margin-left:calc(50% - min(660px,48vw))}}
@media screen and (max-width:900px){.panels{grid-template-columns:repeat(3,minmax(0,1fr))}}
@media screen and (max-width:520px){.panels{grid-template-columns:repeat(2,minmax(0,1fr))}}
@media print{
.panels{grid-template-columns:repeat(3,minmax(0,1fr))}.scene,.gallery li{break-inside:avoid}
.gallery{grid-template-columns:repeat(6,1fr);gap:8px}.steps{position:static}
.steps input:not(:checked)+span{display:none}}
""".replace("@SHOWN@", _SHOWN)
