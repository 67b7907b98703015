// Wrong usage is status 2 and a message that names the argument; a file that cannot be read is status 1.

#include <gtest/gtest.h>

#include "process.h"

using namespace topomask::testing;

namespace {

struct WrongLine {
  std::string arguments;
  std::string text;
};

void expect_usage_errors(const std::vector<WrongLine>& lines) {
  for (const WrongLine& line : lines) {
    const Finished finished = tool(line.arguments);
    EXPECT_EQ(finished.status, 2) << line.arguments << "\n" << finished.err;
    EXPECT_TRUE(has(finished.err, line.text)) << line.arguments << "\n" << finished.err;
    EXPECT_EQ(finished.out, "") << line.arguments;
    for (const char* foreign : {"frame #", "Exception raised", "what():", "terminate", "std::", "enforce fail"}) {
      EXPECT_FALSE(has(finished.err, foreign)) << line.arguments << "\n" << finished.err;
    }
  }
}

}  // namespace

TEST(Usage, UnknownCommandsAndOptionsNameTheNearestKnown) {
  expect_usage_errors({
      {"msak grid:3x3", "there is no command 'msak'; did you mean mask?"},
      {"xyzzy", "there is no command 'xyzzy'\n"},
      {"mask grid:3x3 --kidn grf", "mask: unknown option '--kidn'; did you mean --kind?"},
      {"walks grid:3x3 --walker 3", "walks: unknown option '--walker'; did you mean --walkers?"},
      {"bench grid:3x3 --repititions=3", "bench: unknown option '--repititions'; did you mean --repetitions?"},
      {"explain grid:3x3 --feature 3", "explain: unknown option '--feature'; did you mean --features?"},
      {"suggest grid:3x3 --tolerence 0.1", "suggest: unknown option '--tolerence'; did you mean --tolerance?"},
      {"report runs --titel x", "report: unknown option '--titel'; did you mean --title?"},
      {"predict run image --tpo 3", "predict: unknown option '--tpo'; did you mean --top?"},
      {"eval run --splitt test", "eval: unknown option '--splitt'; did you mean --split?"},
      {"train --otu x", "train: unknown option '--otu'; did you mean --out?"},
      {"info --jsno", "info: unknown option '--jsno'; did you mean --json?"},
      {"info --zzzzzzzz", "info: unknown option '--zzzzzzzz'\n"},
      {"mask grid:3x3 --model.width 3", "mask: unknown option '--model.width'"},
      {"mask grid:3x3 surplus", "mask: unexpected argument 'surplus'"},
      {"info surplus", "info: unexpected argument 'surplus'"},
      {"train --out /tmp/x --modle.width 3", "unknown key 'modle.width'; did you mean 'model.width'?"},
  });
}

TEST(Usage, MissingArgumentsAreNamed) {
  expect_usage_errors({
      {"mask", "graph is required"},
      {"walks", "graph is required"},
      {"suggest", "graph is required"},
      {"explain", "graph is required"},
      {"bench", "graph is required"},
      {"eval", "run is required"},
      {"predict", "run is required"},
      {"predict somewhere", "images is required"},
      {"report", "runs is required"},
      {"mask grid:3x3 --kind", "--kind"},
      {"info --threads", "--threads"},
  });
}

TEST(Usage, NumbersOutsideTheirRangeAreRefused) {
  expect_usage_errors({
      {"info --threads 100000", "--threads: must be a whole number from 0 to"},
      {"info --threads -1", "--threads: must be a whole number from 0 to"},
      {"info --threads two", "--threads: must be a whole number from 0 to"},
      {"suggest grid:3x3 --tolerance 2", "--tolerance: must be a finite number in (0, 1), got '2'"},
      {"suggest grid:3x3 --tolerance 0", "--tolerance: must be a finite number in (0, 1), got '0'"},
      {"suggest grid:3x3 --tolerance nan", "--tolerance: must be a finite number in (0, 1), got 'nan'"},
      {"suggest grid:3x3 --max-walkers 3", "--max-walkers: must be a whole number from 4"},
      {"suggest grid:3x3 --seed -1", "--seed: must be a whole number >= 0, got '-1'"},
      {"walks grid:3x3 --walkers 0", "--walkers: must be a whole number from 1 to 2147483647, got '0'"},
      {"walks grid:3x3 --walkers 2147483648", "--walkers: must be a whole number from 1 to 2147483647"},
      {"walks grid:3x3 --walkers 1.5", "--walkers: must be a whole number"},
      {"walks grid:3x3 --halting-probability 1", "--halting-probability: must be a finite number in (0, 1), got '1'"},
      {"walks grid:3x3 --halting-probability 1e999", "--halting-probability: must be a finite number"},
      {"walks grid:3x3 --max-hops -1", "--max-hops: must be a whole number from 0 to 32767, got '-1'"},
      {"walks grid:3x3 --fixed-hops 40000", "--fixed-hops: must be a whole number from 0 to 32767, got '40000'"},
      {"walks grid:3x3 --coupling tight", "--coupling: must be independent, antithetic, repelling or"},
      {"walks grid:3x3 --seed 1e999", "--seed: must be a whole number"},
      {"mask grid:3x3 --scale 1e999", "--scale: must be a finite number in the range of float32, got '1e999'"},
      {"mask grid:3x3 --scale nan", "--scale: must be a finite number in the range of float32, got 'nan'"},
      {"mask grid:3x3 --scale 1e300", "--scale: must be a finite number in the range of float32, got '1e300'"},
      {"mask grid:3x3 --kind diffusion --time -1", "--time: must be a finite number from 0 to 1e6, got '-1'"},
      {"mask grid:3x3 --kind diffusion --time 1e20", "--time: must be a finite number from 0 to 1e6, got '1e20'"},
      {"mask grid:3x3 --node 99999999999999999999",
       "--node: must be a whole number from 0 to 9223372036854775807, got"},
      {"walks grid:3x3 --walkers 6 --coupling repelling --ensemble 4",
       "ensemble must be 0 or divide walkers = 6, got 4"},
      {"walks grid:3x3 --ensemble -1", "--ensemble: must be a whole number from 0 to 2147483647, got '-1'"},
      {"bench grid:3x3 --longest nan", "--longest: must be a finite number > 0, got 'nan'"},
      {"train --out /tmp/x --stop-after -1", "--stop-after: must be a finite number >= 0, got '-1'"},
      {"train --out /tmp/x --stop-after nan", "--stop-after: must be a finite number >= 0, got 'nan'"},
      {"train --out /tmp/x --stop-after 1e999", "--stop-after: must be a finite number >= 0, got '1e999'"},
      {"train --out /tmp/x --model.edge_scale 1e300", "model.edge_scale must be at most 1e+06, got 1e+300"},
      {"eval run --batch-size -1", "--batch-size: must be a whole number from 1 to 2147483647, got '-1'"},
      {"eval run --batch-size 0", "--batch-size: must be a whole number from 1 to 2147483647, got '0'"},
      {"eval run --batch-size 99999999999999999999", "--batch-size: must be a whole number from 1 to 2147483647, got"},
      {"mask grid:3x3 --terms 0", "--terms: must be a whole number from 1 to 10000, got '0'"},
      {"mask grid:3x3 --node x", "--node: must be a whole number >= 0, got 'x'"},
      {"mask grid:3x3 --diagonal odd", "--diagonal: must be shared or debiased, got 'odd'"},
      {"bench grid:3x3 --heads 0", "--heads: must be a whole number from 1"},
      {"bench grid:3x3 --dimension 0", "--dimension: must be a whole number from 1"},
      {"bench grid:3x3 --repetitions -2", "--repetitions: must be a whole number from 1"},
      {"bench grid:3x3 --budget 0", "--budget: must be a finite number > 0, got '0'"},
      {"explain grid:3x3 --slices 0", "--slices: must be a whole number from 1"},
      {"report runs --examples 0", "--examples: must be a whole number from 1 to 100, got '0'"},
      {"report runs --token -2", "--token: must be a whole number >= -1, got '-2'"},
      {"predict run image --top 0", "--top: must be a whole number >= 1, got '0'"},
      {"eval run --split all", "--split: must be train, validation or test, got 'all'"},
      {"eval run --device tpu", "--device must be cpu, cuda or cuda:N, got 'tpu'"},
      {"predict run image --device cuda:x", "--device must be cpu, cuda or cuda:N, got 'cuda:x'"},
  });
}

TEST(Usage, FunctionsOfHopsAreRefusedInWords) {
  expect_usage_errors({
      {"mask grid:3x3 --f nan", "--f: 'nan' is not a finite number"},
      {"mask grid:3x3 --f 1,inf", "--f: 'inf' is not a finite number"},
      {"mask grid:3x3 --f 1,1e999", "--f: '1e999' is not a finite number"},
      {"mask grid:3x3 --f 1,,2", "--f: '' is not a finite number"},
      {"mask grid:3x3 --f 1,2,", "--f: '' is not a finite number"},
      {"mask grid:3x3 --f ''", "--f"},
      {"mask grid:3x3 --f geometric:", "--f: geometric takes a number, as in --f geometric:RATIO, got 'geometric:'"},
      {"mask grid:3x3 --f diffusion", "--f: diffusion takes a number, as in --f diffusion:TIME, got 'diffusion'"},
      {"mask grid:3x3 --f geometric:x", "--f: 'x' is not a finite number"},
      {"mask grid:3x3 --f geometric:0.5,3", "--f: '0.5,3' is not a finite number"},
      {"mask grid:3x3 --f geomteric:2", "--f: unknown function 'geomteric'; did you mean geometric?"},
      {"mask grid:3x3 --f geometric:1e300", "beyond the range of float32"},
      {"mask grid:3x3 --f 99999999999999999999", "has coefficients whose products are beyond the range of float32"},
      {"mask grid:3x3 --kind grf --f 1,1,1,1 --max-hops 2", "--f has 4 terms, and walks of at most 2 hops"},
      {"suggest grid:3x3 --f nan", "--f: 'nan' is not a finite number"},
  });
}

TEST(Usage, GraphsAreRefusedInWords) {
  expect_usage_errors({
      {"mask tree:-4", "the graph 'tree:-4': a size must be from 1 to 2147483647, got -4"},
      {"mask tree:0", "the graph 'tree:0': a size must be from 1"},
      {"mask tree:1e999", "the graph 'tree:1e999': '1e999' is not a whole number"},
      {"mask path:99999999999999999999", "'99999999999999999999' is too large a number"},
      {"mask path:3000000000", "a size must be from 1 to 2147483647, got 3000000000"},
      {"mask grid:", "the graph 'grid:': '' is not a whole number"},
      {"mask grid", "the graph 'grid': it lacks a size; one would be grid:28x28"},
      {"mask grid:5x", "the graph 'grid:5x': '' is not a whole number"},
      {"mask grid:5xx5", "the graph 'grid:5xx5': '' is not a whole number"},
      {"mask grid:0x5", "the graph 'grid:0x5': a size must be from 1"},
      {"mask grid:5x5:3", "the graph 'grid:5x5:3': nothing may follow '5x5'"},
      {"mask grid:99999x99999", "there may be at most 2147483647 nodes"},
      {"mask gird:5x5", "unknown graph builder 'gird'; did you mean grid?"},
      {"mask complete:1000000", "a size must be from 1 to 40000, got 1000000"},
      {"mask hypercube:60", "a size must be from 1 to 26, got 60"},
      {"mask random:5", "the graph 'random:5': it lacks a size"},
      {"mask random:5:2", "the probability of an edge must be in [0, 1], got 2"},
      {"mask random:5:nan", "the probability of an edge must be in [0, 1], got nan"},
      {"mask random:5:1e999", "'1e999' is too large a number"},
      {"mask random:90000:0.9",
       "the graph 'random:90000:0.9': there may be at most 1700000000 expected entries, which is twice the number of "
       "edges"},
      {"mask random:5:0.5:-1", "'-1' is not a whole number"},
      {"walks tree:-4", "a size must be from 1"},
      {"suggest tree:-4", "a size must be from 1"},
      {"explain tree:-4", "a size must be from 1"},
      {"bench tree:-4", "a size must be from 1"},
      {"mask hypercube:3 --kind toeplitz", "--kind toeplitz needs a grid"},
      {"mask grid:3x3 --save mask.txt", "--save must end in .npz or .mtx, got 'mask.txt'"},
  });
}

TEST(Usage, WhatIsNoUsageErrorIsStatusOne) {
  for (const auto& [arguments, text] : {WrongLine{"mask nowhere.txt", "nowhere.txt: cannot open the file"},
                                        {"walks nowhere.npz", "nowhere.npz: cannot open the file"},
                                        {"mask grid:3x3 --png /nowhere/a.png", "there is no folder /nowhere"},
                                        {"walks grid:3x3 --save /nowhere/a", "there is no folder /nowhere"},
                                        {"predict nowhere a.png", "nowhere: there is no such run"},
                                        {"report nowhere", "report: nowhere: there is no such folder"}}) {
    const Finished finished = tool(arguments);
    EXPECT_EQ(finished.status, 1) << arguments << "\n" << finished.err;
    EXPECT_TRUE(has(finished.err, text)) << arguments << "\n" << finished.err;
  }
}
