// The tree that finds neighbours where nanoflann is absent; knn.cpp tests whichever tree the build has.

#include "ops/nearest_neighbours/place_tree.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>

namespace topomask::ops::nearest_neighbours {
namespace {

/// Keeps the first `capacity` by (distance, place), as the result set of Graph::knn does.
struct FirstPlaces {
  explicit FirstPlaces(size_t n) : capacity(n) {}
  double worstDist() const {
    return found.size() < capacity ? std::numeric_limits<double>::infinity() : found.back().first * (1 + 1e-12);
  }
  bool addPoint(double distance, uint32_t place) {
    ++offered;
    found.insert(std::upper_bound(found.begin(), found.end(), std::pair(distance, place)), {distance, place});
    if (found.size() > capacity) found.pop_back();
    return true;
  }
  size_t capacity, offered = 0;
  std::vector<std::pair<double, uint32_t>> found;
};

void expect_nearest_places(const std::vector<double>& coordinates, int64_t dims, size_t k) {
  const auto count = static_cast<int64_t>(coordinates.size()) / dims;
  const DistinctPoints points = distinct_points(coordinates.data(), count, dims);
  const PlaceTree tree(points);
  for (int64_t i = 0; i < count; ++i) {
    const double* query = coordinates.data() + i * dims;
    FirstPlaces found(k), all(k);
    tree.find(found, query);
    for (int64_t place = 0; place < points.count(); ++place) {
      double distance = 0;
      for (int64_t axis = 0; axis < dims; ++axis) {
        const double difference = query[axis] - points.places[place * dims + axis];
        distance += difference * difference;
      }
      all.addPoint(distance, static_cast<uint32_t>(place));
    }
    ASSERT_EQ(found.found, all.found) << "point " << i << " of " << count << ", dims " << dims << ", k " << k;
  }
}

TEST(PlaceTree, FindsWhatBruteForceFinds) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  for (const int64_t dims : {1, 2, 3, 4, 7}) {
    for (const int64_t count : {1, 2, 10, 11, 63, 500}) {
      std::vector<double> points(static_cast<size_t>(count * dims));
      for (double& x : points) x = normal(random);
      for (const size_t k : {1, 4, 30}) expect_nearest_places(points, dims, k);
    }
  }
}

TEST(PlaceTree, FindsEveryTie) {
  std::mt19937_64 random(4);
  for (const int64_t dims : {1, 2, 3}) {
    std::vector<double> lattice(static_cast<size_t>(400 * dims));
    for (double& x : lattice) x = static_cast<double>(random() % 5);
    for (const size_t k : {1, 3, 9}) expect_nearest_places(lattice, dims, k);
  }
}

TEST(PlaceTree, LooksAtFewPlaces) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> uniform;
  constexpr int64_t kCount = 50'000;
  std::vector<double> points(3 * kCount);
  for (double& x : points) x = uniform(random);
  const DistinctPoints places = distinct_points(points.data(), kCount, 3);
  const PlaceTree tree(places);
  size_t offered = 0;
  for (int64_t i = 0; i < 200; ++i) {
    FirstPlaces nearest(4);
    tree.find(nearest, points.data() + 3 * i);
    offered += nearest.offered;
  }
  EXPECT_LT(offered, 200u * 100);
}

TEST(PlaceTree, OfNoPlacesFindsNothing) {
  const DistinctPoints none = distinct_points(nullptr, 0, 2);
  FirstPlaces nearest(3);
  const double query[] = {0, 0};
  PlaceTree(none).find(nearest, query);
  EXPECT_TRUE(nearest.found.empty());
}

}  // namespace
}  // namespace topomask::ops::nearest_neighbours
