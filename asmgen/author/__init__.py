"""What the author of a kernel writes with: streams, builder, tiles, schedules, LDS maps, contracts, families (docs/ARCHITECTURE.md)."""
