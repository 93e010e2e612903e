"""Run trials in processes: Tune slots, Ray Train worker groups and their mailboxes."""
