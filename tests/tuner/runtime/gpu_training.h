#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "planner/plan/plan.h"
#include "profiler/base/precision.h"
#include "profiler/device/list/device_list.h"

namespace mptune::testing {

constexpr int kGpuBatch = 10;
constexpr double kGpuTolerance = 1e-4;

struct GpuSubject {
  std::string model;
  std::string input;
  bool has_batch_norms = false;
};
inline const GpuSubject kGpuMlp{"mlp:layers=4,width=64", ""};
inline const GpuSubject kGpuLongMlp{"mlp:layers=16,width=32", ""};
inline const GpuSubject kGpuTransformer{"transformer:d=32,layers=2,heads=2,seq=8,vocab=40", ""};
/// With dropout.
inline const GpuSubject kGpuBert{"bert:d=16,layers=3,heads=2,seq=6,vocab=12,classes=3,dropout=10", ""};
inline const GpuSubject kGpuResnet18{"resnet18", "3x64x64", true};
inline const GpuSubject kGpuUnet{"unet:base=2,depth=2,classes=3", "3x16x16", true};

struct GpuChoice {
  std::vector<std::string> devices;
  std::string schedule = "1f1b";
  int microbatches = 4;
  std::vector<int> replicas = {};  ///< per stage; empty: one each
  bool recompute = false;
  bool offload = false;
  LinkThrottle link = {};
  Precision precision = Precision::float32;
};
[[nodiscard]] Plan gpu_plan(const GpuChoice& choice, int layers);

/// Two steps, so that the second works in the memory of the first: loss, gradients and buffers of PyTorch's loop on the CPU, and of the one
/// on the first GPU.
void check_on_gpus(const GpuSubject& subject, const GpuChoice& choice);

/// True on the emulated machine: its GPUs have the CPU's kernels, on one thread each.
[[nodiscard]] bool gpus_round_as_one_thread();

/// cuda:0, cuda:1 ...
[[nodiscard]] std::vector<std::string> gpu_names(int count);
/// 2, 3, and as many GPUs as there are, at most 8.
[[nodiscard]] std::vector<int> gpu_counts();
/// Executable ones, without naive, which runs a batch whole.
[[nodiscard]] std::vector<std::string> schedules_of_microbatches();

/// Skips where there is no GPU.
class GpuTraining : public ::testing::Test {
 protected:
  void SetUp() override;
  std::string cpu;
  std::vector<std::string> halves{"cuda:0/1of2", "cuda:0/2of2"};
};

}  // namespace mptune::testing
