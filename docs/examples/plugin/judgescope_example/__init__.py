"""A template for plugins of JudgeScope: an attack, a defense, a judge, a format and a study."""
