#!/bin/sh
# Stands in for QEMU: does what the test says, with QEMU's words as its own. It is never written while tests run, as a
# file that any process holds open for writing cannot be executed.
eval "$STAND_IN"
