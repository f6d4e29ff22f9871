"""The demo of Weft's main job on one machine. Python's standard library only; see deploy/demo.sh."""
