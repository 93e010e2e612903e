"""Define the keys of a study's question: data, losses, protocols, search and baselines."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from study.config.keys.key_types import (
    AbsolutePath,
    Baselines,
    Count,
    CountFrom0,
    CountFrom2,
    EmbeddingSizes,
    Names,
    Replicates,
    Seed,
    StudyName,
    Texts,
    UniqueTexts,
)


class QuestionKeys(BaseModel):
    """Hold what is compared and how numbers are chosen."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False
    )

    name: StudyName = Field(description="the study's folder and its MLflow experiment")

    dataset: Names = Field(description="one or several of `fairtrial list datasets`")
    data_root: AbsolutePath | None = Field(
        None, description="image_folder: the folder with one folder per class; csv: the file"
    )
    train_classes: UniqueTexts = Field(
        (), description="image_folder, csv: names, in place of the first half of the classes"
    )
    test_classes: UniqueTexts = Field(
        (), description="image_folder, csv: names, in place of the second half"
    )
    exclude: Texts = Field(
        (), description="image files to leave out, as paths below the dataset's folder"
    )
    max_classes: CountFrom2 | None = Field(
        None, description="use only the first so many classes of each half; empty: all"
    )
    backbone: Names = Field(
        description="one or several of `fairtrial list backbones`, or timm:NAME"
    )
    embedding_size: EmbeddingSizes = Field(description="dimensions of the embedding")
    losses: Names = Field(
        description="the losses to compare; LOSS@TAG is the same one again, with its own settings"
    )
    protocols: Names = Field(description="how classes are divided, and so how numbers are chosen")
    settings: dict[str, dict[str, bool | float | str]] = Field(
        {}, description="by loss: values in place of the published ones"
    )
    where: tuple[dict[str, Any], ...] = Field(
        (),
        description="values for some cells only, as in [{dataset: sop, backbone: [resnet50], "
        "learning_rate: 0.0006}]: axes that a cell must match (dataset, backbone, embedding_size, "
        "loss, protocol), and keys of training, crop or network; later entries win",
    )
    leave_out: tuple[dict[str, Any], ...] = Field(
        (), description="cells not to run, by axes, as in [{loss: triplet, backbone: resnet50}]"
    )
    val_fraction: float = Field(
        0.1, gt=0, lt=1, description="fixed_validation: share of the train classes to hold out"
    )
    folds: CountFrom2 = Field(
        4, description="k_fold: models of each trial, each without its own fold of train classes"
    )
    fold_order: Literal["shuffled", "consecutive"] = Field(
        "shuffled", description="k_fold: how classes are put into folds"
    )
    split_seed: Seed = Field(
        0, description="fixed_validation, shuffled k_fold: draws the classes to hold out"
    )
    train_share: float = Field(
        0.5,
        gt=0,
        lt=1,
        description="closed_set: share of each class's images to train on, where the dataset has "
        "no official lists",
    )
    split_file: AbsolutePath | None = Field(
        None, description="class lists to use, like the files in a study's splits folder"
    )

    strategy: str = Field(
        "hyperopt", description="proposes settings: one of `fairtrial list strategies`"
    )
    searches: Replicates = Field(
        3,
        description="replicates of the whole pipeline, each with its own split, search and "
        "initial weights; intervals are over them",
    )
    search_trials: Count = Field(
        8, description="hyperopt, random: settings per search; the first is the published"
    )
    grids: Literal["all", "published"] = Field(
        "all", description="coordinate, grid: sweep all parameters, or those with a published grid"
    )
    grid_levels: CountFrom2 | None = Field(
        None, description="coordinate, grid: at most so many values per parameter; empty: all"
    )
    finalists: CountFrom0 = Field(
        3,
        description="best settings of a search of 16 trials or more, tried again on other splits",
    )
    finalist_splits: CountFrom0 = Field(
        2, description="further splits for each finalist; 0: the search alone chooses; not k_fold"
    )
    search_training: UniqueTexts = Field(
        (), description="searched with the loss: learning_rate, lr_step, lr_gamma, weight_decay"
    )
    search_epochs: Count | None = Field(
        None, description="of a search trial that is not stopped; empty: as many as epochs"
    )
    grace: Count | None = Field(
        None,
        description="epochs before early stopping may end a search trial, more than warm_up; "
        "empty: a quarter of a search trial's",
    )
    reduction: CountFrom2 = Field(
        2, description="one in this many trials continues beyond each rung"
    )
    reproductions: Count = Field(
        1, description="final trials per cell and replicate, each with its own seed"
    )
    peek_search: bool = Field(
        False, description="default: search with test feedback, to measure what that is worth"
    )
    published_too: bool = Field(
        False, description="searched cells: also train the published setting in final trials"
    )
    last_too: bool = Field(
        False, description="final trials also score the test classes at their last epoch"
    )
    refit: bool = Field(
        False, description="after each final trial, one on all train classes for as many epochs"
    )
    seed: Seed = Field(
        0,
        description="of searchers and search trials; final trials have the seeds after it, and "
        "each further replicate its own",
    )
    rope: float = Field(
        0.5,
        ge=0,
        le=100,
        description="points of Recall@1 within which two losses count as equally good in practice",
    )
    baselines: Baselines = Field(
        ("auto",),
        description="what else is scored: pixels; pooled, the features below the embedding layer; "
        "untrained, the network with a random embedding layer; pca, its features reduced by a PCA "
        "fitted on the train classes; auto or true: pixels, with pooled where weights are "
        "pretrained and untrained where weights=none",
    )
