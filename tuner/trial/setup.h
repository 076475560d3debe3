#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "profiler/base/optimizer_choice.h"
#include "profiler/base/precision.h"
#include "profiler/base/rank.h"
#include "profiler/device/list/device_list.h"

namespace mptune::tuner {

/// What is trained, on what: everything a worker must know besides the plan.
struct TrainingSetup {
  std::string model;                                 ///< "resnet50", "transformer:d=256,layers=8"
  std::string input;                                 ///< `--input`, "" for the model's own
  int batch = 0;                                     ///< global batch; 0: the model's own
  std::vector<std::string> devices;                  ///< names, sleep:K expanded
  std::vector<std::string> pools;                    ///< "cpu:0-3/auto": pools to divide by search; `devices` has them evenly divided
  std::string whole_machine;                         ///< "cpu:0-1", "" where there is none
  LinkThrottle link;                                 ///< of copies between CPU devices
  std::map<std::string, std::int64_t> memory_bytes;  ///< cap by device name; absent or 0: none
  Reduce reduce = Reduce::ordered;                   ///< of replicas on several ranks
  OptimizerChoice optimizer;
  double learning_rate = 0;                  ///< 0: the optimizer's default (sgd 0.01, adam and adamw 0.001)
  Precision precision = Precision::float32;  ///< used for measuring and checking; a plan states its own
  std::string loss;                          ///< in the form of text_of(LossChoice); "": the model's own
  std::uint64_t seed = 0;
  std::string data;           ///< file with the user's own batch, "" for synthetic
  std::string sleep_profile;  ///< for sleep devices: trace file with the profile that their sleeps follow
  int rank_call = 0;          ///< number of this request among those that several ranks work on, from 0
  bool operator==(const TrainingSetup&) const = default;
};

}  // namespace mptune::tuner
