#include "reports/cli/commands/topology_input.h"

#include <filesystem>

#include "planner/topology/topology_file.h"
#include "planner/topology/topology_profile.h"
#include "profiler/base/error.h"
#include "profiler/base/units.h"
#include "profiler/trace/formats/any_profile.h"
#include "profiler/trace/formats/layer_graph.h"
#include "profiler/trace/formats/operator_tables.h"
#include "profiler/trace/store/store.h"
#include "reports/cli/commands/plan_input.h"
#include "reports/cli/program/session.h"
#include "reports/values/estimate_words.h"

namespace mptune::reports {
namespace {

Profile any_profile(const std::string& path, const std::string& encoder_layers) {
  const profiler::ProfileFormat format = profiler::profile_format(path);
  const profiler::OperatorModel model = operator_model_of(path, format, encoder_layers);
  switch (format) {
    case profiler::ProfileFormat::sqlite: {
      profiler::Recording recording = profiler::read_recording(path);
      if (!recording.profile) throw Error("the file holds no profile", path, "give a file that profile or tune wrote");
      return *std::move(recording.profile);
    }
    case profiler::ProfileFormat::layer_graph:
      return profiler::read_layer_graph(path);
    case profiler::ProfileFormat::operator_tables:
      return profiler::read_operator_tables(path, model);
    case profiler::ProfileFormat::placement:
      break;
  }
  throw Error("a placement graph has no layers to plan for machines on paper", path, "give a profile, or leave --topology out");
}

}  // namespace

TopologyInput read_on_topology(const std::string& profile, const std::string& topology, const std::string& memory,
                               const std::string& encoder_layers) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(topology, ignored) && !is_foreign(topology, kSqliteMagic))
    throw Error("the file is a trace, not a topology", topology, "give the trace as profile, and a topology file to --topology");
  TopologyInput input;
  input.topology = planner::load_topology(topology);
  if (!memory.empty()) {
    const std::int64_t bytes = parse_bytes(memory, "--memory");
    for (planner::HostGroup& group : input.topology.groups) group.memory_bytes = bytes;
  }
  input.profile = any_profile(profile, encoder_layers);
  input.on_paper = planner::on_topology(input.profile, input.topology, topology);
  input.assumed = estimate_assumptions(input.profile.estimated);
  input.assumed.push_back(planner::topology_assumption(input.profile, input.topology, topology));
  return input;
}

}  // namespace mptune::reports
