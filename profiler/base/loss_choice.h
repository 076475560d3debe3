#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace mptune {

/// The losses of `--loss` beside the model's own.
enum class LossKind { cross_entropy, mse, mean_square };
inline constexpr std::array kLossNames = {"cross_entropy", "mse", "mean_square"};

/// A loss as users name it: its name, which targets count (cross_entropy only), and how much each of the model's outputs adds:
/// "cross_entropy:ignore_index=0:weight=1,2.5,1:outputs=1,0.3".
struct LossChoice {
  LossKind kind = LossKind::cross_entropy;
  std::int64_t ignore_index = -100;        ///< targets that don't count, as in PyTorch
  std::vector<double> class_weights = {};  ///< how much a target counts, by its class; empty: 1 each
  /// The loss is the sum over the outputs of weight times loss(output, target); empty: the first output's alone.
  std::vector<double> output_weights = {};
  bool operator==(const LossChoice&) const = default;
  /// Returns the index of the first output that counts.
  [[nodiscard]] std::size_t first_output() const;
};

/// Throws Error (usage) for another name or a part that the loss does not have.
[[nodiscard]] LossChoice parse_loss(const std::string& text);
/// Returns the text that parse_loss() parses to this loss, always in one form.
[[nodiscard]] std::string text_of(const LossChoice& loss);

}  // namespace mptune
