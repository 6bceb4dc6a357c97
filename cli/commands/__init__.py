"""The commands as tables (`command_line.Command`): `all_commands` has the tree, the modules beside it its branches."""
