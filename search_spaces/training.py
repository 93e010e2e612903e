"""List what the sources say about training, what may be searched, and our values for sketches."""

from collections.abc import Mapping

from search_spaces.space import Param, Range, Value

WEIGHT_DECAY = 1e-4  # the thesis's code; its text prints none
IMAGES_PER_CLASS = 5  # in a balanced batch: inferred from the thesis's text on multi_similarity
EMBEDDING_SIZE = 128  # one of the thesis's four sizes, and the reality check's

# Our choice for the head of a small network on 28 x 28 drawings: no source has one.
SKETCHES_LEARNING_RATE = 1e-3
SKETCHES_BATCH = 50

# Our choice for photographs on a pretrained trunk, by what is trained. With a head alone the rate
# is the head's; a whole network keeps ProxyAnchor's rate for its trunk and has ten times that for
# its head, which is trained alone for an epoch first.
PHOTOS: dict[str, dict[str, Value | None]] = {
    "head": {
        "epochs": 12,
        "learning_rate": 1e-3,
        "head_learning_rate": None,
        "warm_up": 0,
        "freeze_bn": False,
        "views": 2,
    },
    "all": {
        "epochs": 20,
        "learning_rate": 1e-4,
        "head_learning_rate": 1e-3,
        "warm_up": 1,
        "freeze_bn": True,
        "views": 0,
    },
}
AUTO = "auto"  # as the value of a preset's key: chosen by the machine and the data
PHOTOS_BATCH = 100
PHOTOS_SIZE = 512  # dimensions of the embedding

TRAINED = "training."  # prefix of the keys of a setting that replace the study's training
# What search_training may name. thesis: table 3; paper: ProxyAnchor's, whose pipeline the thesis
# follows; code: the thesis's.
TRAINING: dict[str, Param] = {
    "learning_rate": Param(
        paper=1e-4, thesis=1e-4, reality=(1e-6, 1e-6, 1e-6),
        search=Range(1e-6, 1e-2, log=True), domain=Range(1e-12, 1e3), unit="of the backbone",
        note=(
            "Table 3 has 6e-4 for SOP. The reality check trains with RMSprop at 1e-6. Trained from "
            "nothing, networks want ten times more."
        ),
    ),
    "lr_step": Param(
        paper=10, thesis=10,
        search=Range(2, 40, log=True, integer=True), domain=Range(1, 1e6, integer=True),
        unit="epochs",
        note="Table 3 has 5, 10 and 20, for 100 epochs; 10 is its BNInception on CUB.",
    ),
    "lr_gamma": Param(
        paper=0.5, code=0.5, thesis=0.1,
        search=Range(0.05, 1), domain=Range(1e-6, 1),
        note="Table 3 has 0.1, and 0.25 for SOP. 1 is no decay.",
    ),
    "weight_decay": Param(
        paper=1e-4, code=1e-4,
        search=Range(1e-6, 1e-2, log=True), domain=Range(0, 1e3),
        note="The thesis prints none. Others have 4e-4 and 5e-4.",
    ),
}  # fmt: skip


def trained_values(setting: Mapping[str, Value]) -> dict[str, Value]:
    """Return the keys of training that a setting replaces, whole numbers as int.

    A setting itself has whole numbers as floats.
    """
    found: dict[str, Value] = {}
    for key, value in setting.items():
        if key.startswith(TRAINED):
            name = key.removeprefix(TRAINED)
            domain = TRAINING[name].search
            whole = isinstance(domain, Range) and domain.integer
            found[name] = int(value) if whole else value
    return found
