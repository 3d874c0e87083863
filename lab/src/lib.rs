//! The lab: records, replays, simulates and measures.
