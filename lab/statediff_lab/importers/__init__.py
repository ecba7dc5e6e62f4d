"""Recorded runs of public benchmarks, judged again.

A reader knows one *format* and puts it in this project's terms (`recorded.Suite`); what is known
of one benchmark's domain is data, in a pack (`pack`). `rejudge` judges runs; `meta.sweep` seeds
harm into those that pass. No reader sees a run's verdict: `recorded` parts the labels from the
run before it is judged.
"""
