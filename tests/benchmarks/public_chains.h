#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "planner/partition/partition.h"
#include "profiler/base/index.h"
#include "profiler/trace/formats/layer_graph.h"
#include "profiler/trace/formats/operator_tables.h"
#include "tests/support/files.h"
#include "tests/support/layer_chain.h"

namespace mptune::testing {

/// A published chain.
struct PublicChain {
  std::string name;
  Profile profile;  ///< without devices
  int samples = 1;  ///< of the micro-batch that was profiled
};

/// Chains of PipeDream and DAPPLE, reduced to articulation points, and Aceso's GPT-1.3B and GPT-350M with 2 samples per micro-batch.
/// Chains whose data is absent are left out.
inline std::vector<PublicChain> public_chains() {
  std::vector<PublicChain> chains;
  for (const char* name : {"pipedream/alexnet.graph.txt", "pipedream/vgg16.graph.txt", "pipedream/resnet18.graph.txt",
                           "pipedream/resnet50.graph.txt", "pipedream/resnet101.graph.txt", "pipedream/squeezenet1_0.graph.txt",
                           "pipedream/inception_v3.graph.txt", "pipedream/gnmt.graph.txt", "dapple/vgg-19-pbs-32.txt",
                           "dapple/bert-48-pbs-2.txt", "dapple/xlnet-36-pbs-1.txt", "dapple/gnmt-16-pbs-64.txt"}) {
    const std::string path = shared_data(name);
    if (!path.empty())
      chains.push_back({std::string(name).substr(0, std::string(name).find('.')), layer_chain(profiler::read_layer_graph(path)), 1});
  }
  const std::string folder = shared_data("aceso");
  for (const char* name : {"gpt_1_3B", "gpt_350M"})
    if (!folder.empty())
      chains.push_back({std::string("aceso/") + name, profiler::read_operator_tables(folder + "/" + name, {.layers = 24}), 2});
  return chains;
}

/// The chain's profile with `devices` devices of its only class, linked all to all without latency.
inline Profile on_devices(Profile profile, int devices, double bytes_per_second) {
  for (int d = 0; d < devices; ++d) {
    ProfileDevice device;
    device.name = "gpu:" + std::to_string(d);
    profile.devices.push_back(device);
    for (int e = 0; e < devices; ++e) {
      if (d == e) continue;
      LinkCost link;
      link.source = d;
      link.destination = e;
      link.bytes_per_second = bytes_per_second;
      profile.links.push_back(link);
    }
  }
  return profile;
}

/// One stage per device, `microbatches` of the profiled size, 1F1B.
inline planner::PartitionProblem chain_problem(const PublicChain& chain, int stages, int microbatches) {
  planner::PartitionProblem problem;
  for (int s = 0; s < stages; ++s) {
    problem.devices.push_back("gpu:" + std::to_string(s));
    problem.stages.push_back({s});
  }
  problem.microbatch_sizes.assign(as_index(microbatches), chain.samples);
  problem.schedule = "1f1b";
  return problem;
}

}  // namespace mptune::testing
