"""Build the generalisation paper's four triplet selections, all with the NCA loss."""

from pytorch_metric_learning import losses, reducers
from torch import nn

from trainables.losses.formulas import TemperedCosine
from trainables.losses.mining import EasyPositive, RandomPositive
from trainables.losses.objective import Builder, Objective
from trainables.losses.without_waiting import NPairsLoss


def batch_all_nca(classes: int, size: int, *, temperature: float) -> Objective:
    return Objective(_nca(temperature))


def n_pair_nca(classes: int, size: int, *, temperature: float) -> Objective:
    return Objective(NPairsLoss(distance=TemperedCosine(temperature)))


def semi_hard_negative_nca(classes: int, size: int, *, temperature: float) -> Objective:
    return Objective(_nca(temperature), RandomPositive())


def easy_positive_semi_hard_negative(classes: int, size: int, *, temperature: float) -> Objective:
    return Objective(_nca(temperature), EasyPositive())


def _nca(temperature: float) -> nn.Module:
    """Return the loss log(1 + exp((S_an - S_ap) / temperature))."""
    # The mean over all triplets: the library's default leaves out those that underflow to zero.
    loss: nn.Module = losses.TripletMarginLoss(
        margin=0,
        smooth_loss=True,
        distance=TemperedCosine(temperature),
        reducer=reducers.MeanReducer(),
    )
    return loss


BUILDERS: dict[str, Builder] = {
    "batch_all_nca": batch_all_nca,
    "n_pair_nca": n_pair_nca,
    "semi_hard_negative_nca": semi_hard_negative_nca,
    "easy_positive_semi_hard_negative": easy_positive_semi_hard_negative,
}
