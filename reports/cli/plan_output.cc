#include "mptune/reports/cli/plan_output.h"

#include <cctype>
#include <chrono>

#include "mptune/profiler/trace/text.h"
#include "mptune/reports/render/json.h"

namespace mptune {

PlanFile new_plan_file(const Plan& plan, const std::vector<ProfileLayer>& layers, const Fingerprint& fingerprint) {
  PlanFile file;
  file.plan = plan;
  file.modules = stage_modules(plan, layer_modules(layers));
  file.fingerprint = fingerprint;
  file.created = utc_text(std::chrono::system_clock::now());
  return file;
}

PredictedStep predicted_step(const Prediction& prediction) {
  return {.step_s = prediction.step_s, .lower_bound_s = prediction.lower_bound_s, .peak_bytes = prediction.peak_bytes};
}

std::string shell_word(const std::string& text) {
  bool plain = !text.empty();
  for (const char letter : text) {
    plain = plain && (std::isalnum(static_cast<unsigned char>(letter)) != 0 || std::string("-_./:=,+@%").find(letter) != std::string::npos);
  }
  if (plain) {
    return text;
  }
  std::string quoted = "'";
  for (const char letter : text) {
    quoted += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  }
  return quoted + "'";
}

}  // namespace mptune
