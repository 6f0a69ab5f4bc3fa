"""How the partitions of a group are divided among its members. Generators: who runs one may pause between pieces."""
