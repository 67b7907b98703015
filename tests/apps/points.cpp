// Runs of the dynamics of point clouds through the tool: train, eval, predict, report.

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "apps/process.h"
#include "film_strip.h"
#include "support/compare.h"
#include "tasks/points/sliding_box.h"
#include "topomask/data/image.h"

namespace topomask::testing {
namespace {

TEST(Points, ARunIsTrainedEvaluatedPredictedAndReported) {
  const TemporaryFolder folder;
  write_episodes(folder / "data", 5);
  const std::string settings =
      " --set task=points --data.path '" + (folder / "data") +
      "' --data.rollout 2 --data.rays 4 --data.evaluation_steps 2 --model.particles 32 --model.features 4"
      " --model.encoder_width 4 --model.encoder_levels 2 --model.width 8 --model.blocks 1 --model.heads 2"
      " --model.render_neighbours 4 --model.render_width 8 --model.samples 4 --train.batch_size 2 --train.steps 2"
      " --train.evaluation_batch 1 --quiet";
  for (const std::string local : {"grf", "none"}) {
    const Finished trained = tool("train --out '" + (folder / local) + "'" + settings + " --model.local " + local);
    ASSERT_EQ(trained.status, 0) << trained.err;
    EXPECT_TRUE(has(trained.out, "task                 points")) << trained.out;
  }
  Finished finished = tool("eval '" + (folder / "grf") + "' --split validation --json");
  ASSERT_EQ(finished.status, 0) << finished.err;
  for (const char* name :
       {"\"mean_ssim\"", "\"ssim\"", "\"copy_ssim\"", "\"encoded_psnr_moved\"", "\"particle_error\""}) {
    EXPECT_TRUE(has(finished.out, name)) << finished.out;
  }
  finished =
      tool("predict '" + (folder / "grf") + "' 0 --split validation --picture '" + (folder / "strips.png") + "'");
  ASSERT_EQ(finished.status, 0) << finished.err;
  EXPECT_TRUE(has(finished.out, "push")) << finished.out;
  // Two cameras of three rows of two frames, with gaps.
  EXPECT_EQ(read_image(folder / "strips.png").sizes(), at::IntArrayRef({3, 2 * (3 * 18 + 4), 2 * 18}));
  finished = tool("predict '" + (folder / "grf") + "' 7");
  EXPECT_EQ(finished.status, 2);
  EXPECT_TRUE(has(finished.err, "predict: a place must be below 1, the ")) << finished.err;
  finished =
      tool("report '" + (folder / "grf") + "' '" + (folder / "none") + "' --out '" + (folder / "page.html") + "'");
  ASSERT_EQ(finished.status, 0) << finished.err;
  const std::string page = read_file(folder / "page.html");
  for (const char* part : {"Film strips", "Step by step", "copy of the last frame", "true frames, encoded and rendered",
                           "PSNR over the pixels of objects that moved", "nothing moves", "Episode 0 (push)"}) {
    EXPECT_TRUE(has(page, part)) << part;
  }
}

TEST(FilmStrip, HasTruthPredictionAndDifferenceBelowEachOther) {
  at::Tensor truth = at::zeros({2, 4, 5, 3}, at::kByte), prediction = at::zeros({2, 4, 5, 3}, at::kByte);
  truth[1][2][3] = 200;
  prediction[1][2][3] = 100;
  const at::Tensor strip = apps::film_strip(truth, prediction);
  ASSERT_EQ(strip.sizes(), at::IntArrayRef({3, 3 * 6, 2 * 7}));
  EXPECT_EQ(strip[0][2][7 + 3].item<int>(), 200);
  EXPECT_EQ(strip[0][6 + 2][7 + 3].item<int>(), 100);
  EXPECT_EQ(strip[0][12 + 2][7 + 3].item<int>(), 128 - 50);
  EXPECT_EQ(strip[0][12][0].item<int>(), 128);
  EXPECT_EQ(strip[0][4][0].item<int>(), 255);  // a gap
  EXPECT_EQ(apps::below_each_other({strip, strip.slice(2, 0, 7)}).sizes(), at::IntArrayRef({3, 2 * 22, 14}));
  EXPECT_ERROR(apps::film_strip(truth, prediction.slice(0, 1)), "film_strip: truth and prediction must be uint8");
}

}  // namespace
}  // namespace topomask::testing
