"""How long calls take on a GPU, by the device's own clock."""

import statistics
import time

import torch


def between_events(function):
    """Milliseconds of one call."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    function()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


def milliseconds(function, seconds=0.6, most=20):
    """The median of calls that take about so long in all, at least three and at most so many; two more warm up."""
    for _ in range(2):
        function()
    times, started = [], time.perf_counter()
    while len(times) < 3 or (len(times) < most and time.perf_counter() - started < seconds):
        times.append(between_events(function))
    return statistics.median(times)


def captured(function, repeats=10):
    """A graph whose replay calls the function so many times, without the CPU."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            function()
    return graph


def captured_milliseconds(function, repeats=10):
    """Milliseconds of the kernels of a call alone, from a captured graph."""
    return milliseconds(captured(function, repeats).replay) / repeats
