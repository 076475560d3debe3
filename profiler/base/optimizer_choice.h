#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace mptune {

/// The optimizers of `--optimizer`.
enum class OptimizerKind { sgd, adam, adamw };
inline constexpr std::array kOptimizerNames = {"sgd", "adam", "adamw"};

/// An optimizer as users name it: "sgd:momentum=0.9:weight_decay=1e-4", "adamw:beta2=0.95:decay=matrices". What the text does not say is as
/// in PyTorch.
struct OptimizerChoice {
  OptimizerKind kind = OptimizerKind::sgd;
  double momentum = 0;  ///< of sgd, as is `nesterov`
  bool nesterov = false;
  double beta1 = 0.9;  ///< of adam and adamw, as are `beta2` and `epsilon`
  double beta2 = 0.999;
  double epsilon = 1e-8;
  std::optional<double> weight_decay;  ///< nullopt: 0.01 for adamw, else 0
  bool decays_vectors = true;          ///< false: biases, norms and other parameters of fewer than two dimensions do not decay
  bool operator==(const OptimizerChoice&) const = default;
};

[[nodiscard]] double weight_decay_of(const OptimizerChoice& optimizer);
/// Bytes of the optimizer's state per byte of parameters.
[[nodiscard]] double optimizer_state_factor(const OptimizerChoice& optimizer);

[[nodiscard]] std::vector<std::string> optimizer_names();
/// Throws Error (usage) for another name, and for a part that the optimizer does not have or whose value does not fit.
[[nodiscard]] OptimizerChoice parse_optimizer(const std::string& text);
/// Returns the text that parse_optimizer() parses to this optimizer, always in one form.
[[nodiscard]] std::string text_of(const OptimizerChoice& optimizer);

}  // namespace mptune
