"""Print which loss is better and how sure that is, and draw recalls and learning curves."""

from analysis.scripts import show

if __name__ == "__main__":
    show(
        lambda study: study,
        lambda study: study.table("significance").frame().query("apart == 'yes'").to_string(),
        lambda study: study.figure("recall_by_loss"),
        lambda study: study.figure("curves"),
    )
