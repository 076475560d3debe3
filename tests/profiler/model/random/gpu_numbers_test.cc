// Masks and numbers on a GPU where there is one: those of the CPU, by one kernel each.
#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "profiler/base/index.h"
#include "profiler/device/device_worker.h"
#include "profiler/device/list/device_list.h"
#include "profiler/device/list/gpu_driver.h"
#include "profiler/model/random/hashed_numbers.h"
#include "profiler/model/random/randomness.h"
#include "profiler/trace/collect/gpu_collector.h"

namespace mptune::testing {
using namespace profiler;
namespace {

class GpuNumbers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (gpu_driver().gpus == 0) {
      GTEST_SKIP() << gpu_driver().problem;
    }
  }
};

constexpr std::array kTypes{at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kBool};
// More samples than a kernel may have rows of blocks, more numbers than a block has, and counts that divide by nothing.
constexpr std::array<std::array<std::int64_t, 2>, 5> kSizes{{{1, 1}, {70'001, 3}, {3, 701}, {2, 5'000'011}, {64, 4096}}};

TEST_F(GpuNumbers, MasksAreThoseOfTheCpu) {
  for (const auto& sizes : kSizes)
    for (const double keep : {0.0, 1e-9, 0.3, 1 - 1e-9, 1.0})
      for (const at::ScalarType type : kTypes) {
        const auto mask_on = [&](at::Device device) {
          return hashed_mask({~std::uint64_t{5}, 1'000'000'007, sizes[0]}, keep, sizes, at::TensorOptions(type).device(device)).cpu();
        };
        EXPECT_TRUE(at::equal(mask_on(at::kCUDA), mask_on(at::kCPU))) << sizes[0] << "x" << sizes[1] << " " << keep << " " << type;
      }
}

TEST_F(GpuNumbers, UniformNumbersAreThoseOfTheCpu) {
  for (const auto& sizes : kSizes)
    for (const int digits : {8, 24, 53}) {
      const auto numbers_on = [&](at::Device device) { return hashed_uniform({7, 3, sizes[0]}, digits, sizes, device).cpu(); };
      EXPECT_TRUE(at::equal(numbers_on(at::kCUDA), numbers_on(at::kCPU))) << sizes[0] << "x" << sizes[1] << " " << digits;
    }
}

TEST_F(GpuNumbers, ArePlacedByRunsAsOnTheCpu) {
  for (const auto& [samples, runs, length] : {std::array<std::int64_t, 3>{4, 512, 1024}, {3, 70'001, 1}, {1000, 7, 3}, {5, 3, 300}}) {
    const auto mask_on = [&](at::Device device) {
      return hashed_mask({7, 3, samples, runs}, 0.3, {runs, samples, length}, at::TensorOptions(at::kFloat).device(device)).cpu();
    };
    EXPECT_TRUE(at::equal(mask_on(at::kCUDA), mask_on(at::kCPU))) << runs << "x" << samples << "x" << length;
  }
}

TEST_F(GpuNumbers, PartsOfAGpuDrawThem) {
  const at::Tensor expected = hashed_mask({7, 3, 8}, 0.3, {8, 1001}, at::kFloat);
  for (const char* part : {"cuda:0/1of2", "cuda:0/2of2"}) {
    DeviceWorker worker(make_device(parse_device(part)));
    worker.run([&] {
      for (int draw = 0; draw < 3; ++draw)
        EXPECT_TRUE(at::equal(hashed_mask({7, 3, 8}, 0.3, {8, 1001}, at::TensorOptions(at::kFloat).device(at::kCUDA)).cpu(), expected))
            << part;
    });
  }
}

/// Names of the kernels that `work` launches.
std::vector<std::string> kernels_of(const std::function<void()>& work) {
  const auto synchronize = [] { at::detail::getCUDAHooks().deviceSynchronize(0); };
  synchronize();
  const auto collector = make_gpu_collector({{"cuda:0", "", 0, 0}});
  collector->start();
  work();
  synchronize();
  const Trace trace = collector->stop();
  EXPECT_EQ(trace.quality.dropped, 0);
  std::vector<std::string> names;
  for (const Event& event : trace.events)
    if (is_compute(event.kind)) names.push_back(trace.names.at(as_index(event.name)));
  return names;
}

TEST_F(GpuNumbers, AMaskIsOneKernelAndDropoutIsThree) {
  require_gpu_collector();
  const at::Tensor input = at::ones({64, 1000}, at::TensorOptions(at::kFloat).device(at::kCUDA));
  const auto draw = [&] {
    for (const at::ScalarType type : kTypes) (void)hashed_mask({7, 3, 64}, 0.3, {64, 1000}, input.options().dtype(type));
    (void)hashed_uniform({7, 3, 64}, 53, {64, 1000}, input.options());
    const DrawScope scope({.seed = 1, .step = 0, .layer = 2, .name = "layer", .first_sample = 0, .samples = 64});
    (void)at::dropout(input, 0.3, true);
  };
  draw();  // compiles
  const std::vector<std::string> names = kernels_of(draw);
  const std::vector<std::string> first{"mptune_mask_4", "mptune_mask_8",  "mptune_mask_2", "mptune_mask_2",
                                       "mptune_mask_1", "mptune_uniform", "mptune_mask_4"};
  ASSERT_EQ(names.size(), first.size() + 2) << ::testing::PrintToString(names);
  EXPECT_TRUE(std::equal(first.begin(), first.end(), names.begin())) << ::testing::PrintToString(names);
}

}  // namespace
}  // namespace mptune::testing
