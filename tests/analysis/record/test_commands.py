"""A command that a message says to type names the folder of its study."""

from analysis.record.commands import command


def test_a_folder_is_named_unless_it_is_the_usual_one() -> None:
    assert command("run mine --resume", "studies") == "fairtrial run mine --resume"
    assert (
        command("run mine --resume", "/a b") == "fairtrial run mine --resume --set studies='/a b'"
    )
    assert command("report mine", "elsewhere") == "fairtrial report mine --studies elsewhere"
