"""A shelf of tools from many trades, and questions that people would ask for them, each with its answer.

Written for this project, to measure how well a search finds: `tools.SHELF` are the tools as definitions,
`questions.QUESTIONS` what is asked. The tests hold our search to it, the benchmark asks others the same.
"""
