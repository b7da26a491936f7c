"""Tasks of real cases that fail as they are told, one module a framework: `task._target_=faulty.paddle.Faulty`."""
