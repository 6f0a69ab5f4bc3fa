"""The log of one partition: its bytes (`local_log`) and what they mean (`partition_log`)."""
