def mask(
    x: int,
    out: int,
    samples: int,
    size: int,
    first: int,
    key: int,
    sample: int,
    law: float,
    exponent: int,
    scaled: bool,
    shared: bool,
    threads: int,
) -> None: ...
def mask_backward(
    grad: int, x: int, grad_x: int, size: int, key: int, logit: float, exponent: int, threads: int
) -> float: ...
def stack(
    grad: int,
    x: int,
    out: int,
    logit_grads: int,
    logits: int,
    replicas: int,
    size: int,
    key: int,
    exponent: int,
    threads: int,
) -> None: ...
def channels(
    grad: int,
    x: int,
    keep: int,
    out: int,
    rows: int,
    pixels: int,
    channels: int,
    logit: float,
    exponent: int,
    threads: int,
) -> float: ...
