import torch
import topomask as tm

graph = tm.Graph.grid(128, 128)  # an image's tokens; also knn(points), read("roads.txt.gz"), from_networkx(…), …
mask = tm.GRFMask(graph, walkers=32, halting_probability=0.25, heads=8)  # a torch module; mask.f is its parameter
q, k, v = (torch.randn(2, 8, 128 * 128, 64) for _ in range(3))
out = tm.attention(q, k, v, mask)  # [2, 8, 16384, 64]; no 16384 × 16384 matrix anywhere
out.sum().backward()  # to mask.f, and to q, k and v where they require it
print(tm.explain(q, k, v, mask))  # the routes, what each costs, the choice and why
