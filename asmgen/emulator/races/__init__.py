"""Races on device memory between waves and workgroups; results that are read too early."""
