#include <filesystem>

#include "support/compare.h"
#include "topomask/config.h"

using namespace topomask;

namespace {

struct Inner {
  int64_t width = 3;
  std::vector<double> mean;
};
struct Outer {
  std::string name = "a";
  bool flip = false;
  double rate = 0.5;
  uint64_t seed = 1;
  Inner inner;
};

template <class Visitor>
void visit(Visitor& v, Inner& o) {
  v("width", o.width, "how wide");
  v("mean", o.mean, "a list");
}

template <class Visitor>
void visit(Visitor& v, Outer& o) {
  v("name", o.name, "a name");
  v("flip", o.flip, "yes or no");
  v("rate", o.rate, "a number");
  v("seed", o.seed, "a seed");
  v("inner", o.inner, "more");
}

}  // namespace

TEST(Options, AreReadFromJsonWithComments) {
  Outer o;
  read_options(option_fields(o), R"({"rate": 2, /* why */ "inner": {"width": 1e3, "mean": [0.5, 1]}, "flip": true})",
               "");
  EXPECT_EQ(o.rate, 2);
  EXPECT_EQ(o.inner.width, 1000);
  EXPECT_EQ(o.inner.mean, (std::vector<double>{0.5, 1}));
  EXPECT_TRUE(o.flip);
  EXPECT_EQ(o.name, "a");
}

TEST(Options, ComeBackAsTheyWereWritten) {
  Outer o{.name = "b\"c", .rate = 0.1, .seed = ~0ULL, .inner = {.width = -5, .mean = {1e-9}}};
  Outer copy;
  read_options(option_fields(copy), write_options(option_fields(o)), "");
  EXPECT_EQ(write_options(option_fields(copy)), write_options(option_fields(o)));
  EXPECT_EQ(copy.seed, ~0ULL);
  EXPECT_EQ(copy.rate, 0.1);
}

TEST(Options, UnknownKeysAreRefusedWithTheNearest) {
  Outer o;
  EXPECT_ERROR(read_options(option_fields(o), R"({"inner": {"widht": 3}})", "run.json: "),
               "run.json: unknown key 'inner.widht'; did you mean 'inner.width'?");
  EXPECT_ERROR(read_options(option_fields(o), R"({"width": 3})", "f: "), "did you mean 'inner.width'?");
  EXPECT_ERROR(read_options(option_fields(o), R"({"zzzzzzzzzzzz": 3})", "f: "), "unknown key 'zzzzzzzzzzzz'");
  EXPECT_ERROR(set_option(option_fields(o), "rat", "3"), "unknown key 'rat'; did you mean 'rate'?");
}

TEST(Options, WrongTypesAreRefusedWithFileAndKey) {
  Outer o;
  const auto expect = [&](const char* json, const char* text) {
    EXPECT_ERROR(read_options(option_fields(o), json, "run.json: "), text);
  };
  expect(R"({"inner": {"width": "wide"}})", "run.json: inner.width must be an integer, got \"wide\"");
  expect(R"({"inner": {"width": 2.5}})", "inner.width must be an integer, got 2.5");
  expect(R"({"inner": {"width": 9223372036854775808}})", "inner.width must be an integer, got 9223372036854775808");
  expect(R"({"seed": -1})", "seed must be an integer that is not negative, got -1");
  expect(R"({"flip": 1})", "flip must be true or false, got 1");
  expect(R"({"rate": "fast"})", "rate must be a number");
  expect(R"({"name": 3})", "name must be a string, got 3");
  expect(R"({"inner": {"mean": [1, "a"]}})", "inner.mean must be a list of numbers");
  expect(R"({"inner": 3})", "inner must be an object, got 3");
  expect("[1]", "expected an object in braces, got array");
  expect("{\"rate\": ", "run.json: not JSON: parse error at line 1");
  expect("{\"rate\": 1e400}",
         "run.json: a number is out of the range of float64 at line 1: number overflow parsing '1e400'");
}

// Printing such a value in an error text would take a call for each level.
TEST(Options, DeepNestingIsRefused) {
  Outer o;
  const std::string deep = "{\"rate\": " + std::string(200000, '[') + std::string(200000, ']') + "}";
  EXPECT_ERROR(read_options(option_fields(o), deep, "run.json: "),
               "run.json: objects and lists must nest at most 32 deep");
  EXPECT_ERROR(parse_config("{\"model\": {\"preset\": " + std::string(200000, '['), "run.json: "),
               "run.json: objects and lists must nest at most 32 deep");
}

TEST(Options, AreSetFromTheCommandLine) {
  Outer o;
  const auto set = [&](const char* key, const char* text) { set_option(option_fields(o), key, text); };
  set("inner.width", "192");
  set("inner.mean", "0.1,0.2");
  set("flip", "on");
  set("name", "42");
  set("rate", "1e-3");
  EXPECT_EQ(o.inner.width, 192);
  EXPECT_EQ(o.inner.mean, (std::vector<double>{0.1, 0.2}));
  EXPECT_TRUE(o.flip);
  EXPECT_EQ(o.name, "42");
  EXPECT_EQ(o.rate, 1e-3);
  set("rate", ".5");
  EXPECT_EQ(o.rate, 0.5);
  EXPECT_ERROR(set("rate", "inf"), "rate must be a number, got 'inf'");
  set("inner.mean", "[]");
  EXPECT_TRUE(o.inner.mean.empty());
  EXPECT_ERROR(set("name", "\xff"), "name must be UTF-8, got bytes that are not");
  set("name", "été");
  EXPECT_EQ(o.name, "été");
  EXPECT_ERROR(set("inner.width", "19x"), "inner.width must be an integer, got '19x'");
}

TEST(RunConfigFile, EveryExampleIsRead) {
  int64_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(TOPOMASK_GOLDEN_DIR) + "/../../examples")) {
    if (entry.path().extension() != ".json") continue;
    ++found;
    EXPECT_NO_THROW(read_config(entry.path()).check()) << entry.path();
  }
  EXPECT_GE(found, 10);
}

TEST(RunConfigFile, PresetsComeFirstAndKeysChangeThem) {
  const RunConfig config = parse_config(R"({"model": {"width": 32, "preset": "base"}})", "f: ");
  EXPECT_EQ(config.model.width, 32);
  EXPECT_EQ(config.model.depth, ViTOptions::preset("base").depth);
  EXPECT_ERROR(parse_config(R"({"model": {"preset": 3}})", "f: "), "f: model.preset must be a string, got 3");
  EXPECT_ERROR(read_config("/nowhere/run.json"), "read_config: /nowhere/run.json: cannot read the file");
  RunConfig other;
  override_config(other, "model.preset", "base");
  override_config(other, "train.batch_size", "7");
  EXPECT_EQ(other.model.width, ViTOptions::preset("base").width);
  EXPECT_EQ(parse_config(to_json(other), "").train.batch_size, 7);
}
