#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace mptune::profiler {

/// Results of one seeded step in Python at export time: extra/mptune.json (schema mptune.export/1), written by mptune_export.py.
struct ExportedReference {
  std::string torch;           ///< version of PyTorch that ran the step
  std::string device = "cpu";  ///< type of device that ran the step
  int threads = 0;             ///< its intra-op threads; 0: unknown
  std::int64_t seed = 0;
  double loss = 0;
  bool loss_in_program = false;                  ///< false: the loss is the mean square of the first output
  std::map<std::string, double> gradient_norms;  ///< by parameter name; parameters without a gradient are not listed
  std::map<std::string, double> buffer_norms;    ///< after the step
  std::string batch_limit = {};                  ///< ExportedProgram::batch_limit
  std::set<std::string> cumulative_norms = {};   ///< ExportedProgram::cumulative_norms
};

/// Throws Error: not JSON, another schema, a value missing, of the wrong type or not finite. `where` names the file.
[[nodiscard]] ExportedReference read_reference(const std::string& json, const std::string& where);

}  // namespace mptune::profiler
