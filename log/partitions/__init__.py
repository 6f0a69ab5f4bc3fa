"""The log of one partition: its bytes (`local_log`) and their meaning (`partition_log`)."""
