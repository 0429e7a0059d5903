"""What a finding is, and the rules that findings name."""
