"""Repeat the reality check of Musgrave et al.: 14 losses, four folds, 50 trials, ten runs each."""

from study.scripts import run

if __name__ == "__main__":
    run("reality_check")
