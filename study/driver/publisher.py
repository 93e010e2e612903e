"""Publish a study: its page, and its networks in MLflow, made by processes while it runs."""

from __future__ import annotations

from pathlib import Path

from analysis.record.frames import read_record
from analysis.record.state import StudyState
from analysis.report.model_process import ModelProcess
from analysis.report.page import Page, keep_page, write_page
from analysis.report.page_process import PageProcess
from study.config.complete_losses import CompleteLosses
from study.config.plan import StudyPlan
from study.driver.folder import config_yaml, tracking_uri
from study.view.live_view import LiveView

# Seconds until processes for the page and for networks start; the slots have loaded by then.
PAGE_AFTER, MODELS_AFTER = 15.0, 30.0


class Publisher:
    """Hold the processes that load libraries while trials run, so that a study's end is quick."""

    def __init__(self, plan: StudyPlan, folder: Path, view: LiveView) -> None:
        self.config, self.folder, self.view = plan.config, folder, view
        self.uri = tracking_uri(plan.config)
        self.page, self.models, self.complete = PageProcess(), ModelProcess(), CompleteLosses(plan)

    def start_later(self) -> None:
        """Start the processes once the slots have loaded."""
        self.page.start_later(PAGE_AFTER)
        if self.config.log_models != "none":
            self.models.start_later(MODELS_AFTER)

    def offer_models(self, state: StudyState) -> None:
        """Let networks of losses that are complete be logged, without waiting."""
        if self.config.log_models == "best" and self.complete.grew(state):
            self.models.offer(self.uri, self.folder, self.complete.losses)

    def ask_page(self) -> None:
        """Let the page be written while Tune, MLflow and Ray end."""
        self.page.ask(self.folder, config_yaml(self.config))

    def ask_models(self) -> None:
        """Let all networks be logged while Ray stops and the page is written."""
        self.models.ask_models(self.uri, self.folder, self.config.log_models)

    def publish(self, untracked: str) -> tuple[Page, str]:
        """Return the page, and what MLflow lacks once page and networks are there.

        untracked: what it lacks before.
        """
        with self.view.busy("Ranking the losses and writing the page"):
            written = self.page.answer() or write_page(
                read_record(self.folder),
                folder=self.folder,
                config_yaml=config_yaml(self.config),
                maps=False,
            )
        with self.view.busy("Giving the page to MLflow"):
            missed = keep_page(self.uri, self.config.name, written, self.folder)
            untracked = untracked or missed
        with self.view.busy("Giving the networks to MLflow"):
            which = self.config.log_models
            untracked = untracked or self.models.missing(self.uri, self.folder, which)
        return written, untracked

    def close(self) -> None:
        self.page.close()
        self.models.close()
