#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <limits>
#include <numbers>

#include "data/graphs/clouds.h"
#include "data/graphs/graph_files.h"
#include "support/compare.h"

namespace topomask::testing {
namespace {

/// An octahedron around (1, 2, 3).
constexpr const char* kOctahedron =
    "# made by hand\nv 3 2 3\nv -1 2 3\nv 1 4 3 0.5 0.5 0.5\nv 1 0 3\nv 1 2 5\nv 1 2 1\n\nvn 0 0 1\no thing\n"
    "f 1 3 5\nf 3 2 5\nf 2/1/1 4/2/1 5/3/1\nf 4//1 1//1 5//1\nf 3 1 6\nf -5 -4 -1\nf 4 2 6\nf 1 4 6\n";

std::string write_meshes(const TemporaryFolder& folder) {
  for (const char* kind : {"ball", "flat"}) {
    for (const char* name : {"train/a.obj", "train/b.obj", "test/c.obj"}) {
      write_file(folder / (std::string(kind) + "/" + name),
                 kind == std::string("ball") ? kOctahedron : "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3 4\n");
    }
  }
  return folder.path().string();
}

GraphDataOptions mesh_options(const std::string& path) {
  return {.kind = "mesh", .path = path, .validation_fraction = 0.5};
}

TEST(Meshes, AreReadWithTheirEdgesAndSplit) {
  const TemporaryFolder folder;
  const auto [set, split] = open_graphs(mesh_options(write_meshes(folder)));
  ASSERT_EQ(set.size(), 6);
  EXPECT_EQ(set.classes, (std::vector<std::string>{"ball", "flat"}));
  EXPECT_TRUE(at::equal(set.labels, at::tensor({0, 0, 0, 1, 1, 1}, at::kLong)));
  EXPECT_EQ(split.test, (std::vector<int64_t>{2, 5}));
  EXPECT_EQ(split.train.size(), 2U);
  EXPECT_EQ(split.validation.size(), 2U);
  // An octahedron joins each vertex with all but the opposite one; a square of two triangles has a diagonal.
  EXPECT_TRUE(at::equal(set.graph.degrees().narrow(0, 0, 6), at::full({6}, 4, at::kLong)));
  EXPECT_TRUE(at::equal(set.graph.degrees().narrow(0, 18, 4), at::tensor({3, 2, 3, 2}, at::kLong)));
  EXPECT_EQ(set.vectors, 2);
}

TEST(Meshes, HaveGeometricFeatures) {
  const TemporaryFolder folder;
  const at::Tensor all = open_graphs(mesh_options(write_meshes(folder))).set.features;
  const at::Tensor ball = all.narrow(0, 0, 6), flat = all.narrow(0, 18, 4);
  const at::Tensor axes = at::tensor({1., 0., 0., -1., 0., 0., 0., 1., 0., 0., -1., 0., 0., 0., 1., 0., 0., -1.})
                              .view({6, 3})
                              .to(at::kFloat);
  EXPECT_TRUE(close(ball.narrow(1, 0, 3), axes, 1e-6, 1));  // centred, root-mean-square radius 1
  EXPECT_TRUE(close(ball.narrow(1, 3, 3), axes, 1e-6, 1));  // normals point outwards
  EXPECT_TRUE(close(ball.select(1, 6), at::ones({6}), 1e-6, 1));
  // Four angles of 60°: 2π − 4π/3 = 2π/3; the defects of a sphere add up to 4π.
  EXPECT_TRUE(close(ball.select(1, 7), at::full({6}, 2. / 3), 1e-5, 1));
  EXPECT_TRUE(close(ball.select(1, 8), at::zeros({6}), 1e-5, 1));
  EXPECT_TRUE(close(ball.select(1, 9), at::full({6}, 1 / std::numbers::sqrt2), 1e-5, 1));  // edges are √2 long
  EXPECT_TRUE(close(flat.narrow(1, 3, 3), at::tensor({0.F, 0.F, 1.F}).expand({4, 3}), 1e-6, 1));
  EXPECT_TRUE(close(flat.select(1, 7), at::full({4}, 1.5), 1e-5, 1));  // corners of 90° at the border
}

TEST(Meshes, AreCloudsByTheirNearestNeighbours) {
  const TemporaryFolder folder;
  GraphDataOptions options = mesh_options(write_meshes(folder));
  options.edges = "nearest";
  options.neighbours = 3;
  const GraphSet set = open_graphs(options).set;
  for (int64_t g = 0; g < set.size(); ++g) {
    const int64_t first = set.offsets[g].item<int64_t>(), count = set.offsets[g + 1].item<int64_t>() - first;
    const Graph expected = Graph::knn(set.features.narrow(0, first, count).narrow(1, 0, 3), {.k = 3}),
                found = induced_subgraph(set.graph, at::arange(first, first + count));
    EXPECT_TRUE(at::equal(found.columns(), expected.columns()));
    EXPECT_TRUE(at::equal(found.offsets(), expected.offsets()));
  }
  options.points = 5;
  EXPECT_TRUE(at::equal(open_graphs(options).set.offsets.diff(), at::tensor({5, 5, 5, 4, 4, 4}, at::kLong)));
  options.edges = "given";
  EXPECT_ERROR(open_graphs(options), "points must be 0 where a mesh keeps its own edges (edges = given), got 5");
}

TEST(Meshes, MayBeObjectFileFormat) {
  const TemporaryFolder folder;
  write_file(folder / "a.obj", "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nf 1 2 3 4\n");
  const SurfaceMesh expected = read_mesh({"test", folder / "a.obj"});
  for (const char* start : {"OFF\n4 1 0\n", "OFF4 1 0\n", "# c\nOFF 4 1 0\n\n", "STCNOFF\n4 1 0\n", "COFF4 1 0\n"}) {
    write_file(folder / "a.off", start + std::string("0 0 0\n1 0 0\n1 1 0\n0 1 0\n4 0 1 2 3\n"));
    const SurfaceMesh mesh = read_mesh({"test", folder / "a.off"});
    EXPECT_EQ(mesh.places, expected.places);
    EXPECT_EQ(mesh.corners, (std::vector<int32_t>{0, 1, 2, 0, 2, 3}));
    EXPECT_EQ(mesh.corners, expected.corners);
  }
}

TEST(Meshes, MayHaveMoreAfterPlacesAndFaces) {
  const TemporaryFolder folder;
  write_file(folder / "a.off", "NOFF\n3 1 0\n0 0 0 0 0 1\n1 0 0 0 0 1\n1 1 0 0 0 1\n3 0 1 2 255 0 0\n");
  const SurfaceMesh mesh = read_mesh({"test", folder / "a.off"});
  EXPECT_EQ(mesh.places, (std::vector<float>{0, 0, 0, 1, 0, 0, 1, 1, 0}));
  EXPECT_EQ(mesh.corners, (std::vector<int32_t>{0, 1, 2}));
}

TEST(Meshes, MayHaveExtensionsInCapitals) {
  const TemporaryFolder folder;
  const std::string off = "OFF\n3 1 0\n0 0 0\n1 0 0\n1 1 0\n3 0 1 2\n", obj = "v 0 0 0\nv 1 0 0\nv 1 1 0\nf 1 2 3\n";
  write_file(folder / "one/train/A.OBJ", obj);
  write_file(folder / "one/train/b.obj.GZ", gzip(obj));
  write_file(folder / "one/train/c.Off", off);
  write_file(folder / "one/test/D.OFF.gz", gzip(off));
  write_file(folder / "one/test/e.objx", "no mesh");
  const GraphSet set = open_graphs(mesh_options(folder.path().string())).set;
  ASSERT_EQ(set.size(), 4);
  EXPECT_TRUE(at::equal(set.graph.degrees(), at::full({12}, 2, at::kLong)));
}

TEST(Meshes, MayHaveLinesThatABackslashContinues) {
  const TemporaryFolder folder;
  write_file(folder / "a.obj", "# C:\\\nv 0 0 0\nv 1 \\\n0\\\r\n 0\nv 1 1 0\nv 0 1 0\nf 1 2\\\n3 \\\n4\nf 1 2 3 \\\n");
  const SurfaceMesh mesh = read_mesh({"test", folder / "a.obj"});
  EXPECT_EQ(mesh.places, (std::vector<float>{0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0}));
  EXPECT_EQ(mesh.corners, (std::vector<int32_t>{0, 1, 2, 0, 2, 3, 0, 1, 2}));
  std::string endless = "v 0 0 0\nf 1";
  for (int i = 0; i < 200000; ++i) endless += " \\\n1";
  write_file(folder / "a.obj", endless);
  EXPECT_ERROR(read_mesh({"test", folder / "a.obj"}), "a line must be shorter than");
}

TEST(Meshes, RoundTinyCoordinatesToZero) {
  const TemporaryFolder folder;
  write_file(folder / "a.obj", "v 1e-50 -1e-300 1e-45\n");
  const SurfaceMesh mesh = read_mesh({"test", folder / "a.obj"});
  EXPECT_EQ(mesh.places, (std::vector<float>{0, 0, std::numeric_limits<float>::denorm_min()}));
}

TEST(Meshes, SkipFacesWithoutAnArea) {
  const TemporaryFolder folder;
  write_file(folder / "a.obj", "v 0 0 0\nv 1 0 0\nv 1 1 0\nf 1 2\nf\nf 3\nf 1 2 3\n");
  EXPECT_EQ(read_mesh({"test", folder / "a.obj"}).corners, (std::vector<int32_t>{0, 1, 2}));
  write_file(folder / "a.off", "OFF\n3 4 0\n0 0 0\n1 0 0\n1 1 0\n2 0 1\n0\n1 2\n3 0 1 2\n");
  EXPECT_EQ(read_mesh({"test", folder / "a.off"}).corners, (std::vector<int32_t>{0, 1, 2}));
  write_file(folder / "one/train/a.obj", "v 0 0 0\nv 1 0 0\nf 1 2\n");  // no triangle at all
  write_file(folder / "one/test/a.obj", "v 0 0 0\n");
  const GraphSet set = open_graphs(mesh_options(folder.path().string())).set;
  EXPECT_EQ(set.num_nodes(), 3);
  EXPECT_EQ(set.graph.num_edges(), 0);
  EXPECT_TRUE(set.features.isfinite().all().item<bool>());
}

TEST(Meshes, AreRefusedByFileAndLine) {
  const TemporaryFolder folder;
  const auto fails = [&](const char* name, const std::string& text, const std::string& fault) {
    write_file(folder / name, text);
    EXPECT_ERROR(read_mesh({"open_graphs", folder / name}), "open_graphs: " + folder / name + fault);
  };
  fails("a.obj", "v 1 2\n", ":1: expected a coordinate, got \"\"");
  fails("a.obj", "v 1 2 nan\n", ":1: expected a coordinate, got \"nan\"");
  fails("a.obj", "v 1 2 3\nf 1 1 x\n", ":2: expected the number of a vertex, got \"x\"");
  fails("a.obj", "v 1 2 1e39\n", ":1: expected a coordinate in the range of float32, got \"1e39\"");
  fails("a.obj", "v 1 2 3\nf 1 0 1\n", ":2: vertices are numbered from 1, or from -1 backwards, got 0");
  fails("a.obj", "v 1 2 3\nf 1 1 -2\n", ":2: vertices are numbered from 1, or from -1 backwards, got -2");
  fails("a.obj", "v 1 2 3\nf 1 4 1\nf 1 1 1\n", ": the face on line 2 names vertex 4, there are 1");
  fails("a.obj", "f\n", ": there is no vertex in it");
  fails("a.obj", "v 1 2 3\nf 1 2\n", ": the face on line 2 names vertex 2, there are 1");
  fails("a.obj", "", ": there is no vertex in it");
  fails("a.off", "PLY\n", ": expected OFF on the first line, with nothing but ST, C and N before it");
  fails("a.off", "NCOFF\n", ": expected OFF on the first line, with nothing but ST, C and N before it");
  fails("a.off", "OFF\n1 1 0\n0 0 0\n-1\n", ":4: a face must have at least 0 vertices, got -1");
  fails("a.off", "OFF\n", ": the counts are missing");
  fails("a.off", "OFF\n-1 2 3\n", ":2: counts must be >= 0, got -1 and 2");
  fails("a.off", "OFF\n2000000000 2 3\n0 0 0\n", ": expected 2000000000 vertices, got 1");
  fails("a.off", "OFF\n1 2 3\n0 0 0\n3 0 0 1\n", ":4: vertices are numbered from 0 to 0, got 1");
  fails("a.off", "OFF\n1 2 3\n0 0 0\n3 0 0 0\n", ": expected 2 faces, got 1");
  fails("a.off", "OFF\n1 1 3\n0 0 0\n900000 0 0 0\n", ":4: expected the number of a vertex, got \"\"");
  EXPECT_ERROR(open_graphs(mesh_options(folder.path().string())),
               "expected meshes in CLASS/train and CLASS/test, .obj or .off, got none");
}

}  // namespace
}  // namespace topomask::testing
