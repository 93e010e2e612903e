"""Run the future work of the thesis: HyperOpt on held-out classes for all losses."""

from study.scripts import run

if __name__ == "__main__":
    run("fixed_validation_all")
