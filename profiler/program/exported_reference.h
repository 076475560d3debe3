#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace mptune {

/// What one seeded step of the model itself gave in Python when it was exported: extra/mptune.json, schema mptune.export/1, which
/// mptune_export.py writes.
struct ExportedReference {
  std::string torch;           ///< version that took the step
  std::string device = "cpu";  ///< kind of device that it was taken on
  int threads = 0;             ///< intra-op threads of it; 0: not known
  std::int64_t seed = 0;
  double loss = 0;
  bool loss_in_program = false;                  ///< else the loss is the mean square of the first output
  std::map<std::string, double> gradient_norms;  ///< by the parameter's name; parameters without a gradient are not listed
  std::map<std::string, double> buffer_norms;    ///< after the step
};

/// Throws Error: no JSON, another schema, what is missing, of a wrong type or not finite. `where` names the file.
[[nodiscard]] ExportedReference read_reference(const std::string& json, const std::string& where);

}  // namespace mptune
