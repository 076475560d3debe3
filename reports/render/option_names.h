#pragma once

#include <string>
#include <vector>

#include "planner/plan/field.h"

namespace mptune::reports {

/// Returns the option of a field: "--virtual" for Field::virtual_stages.
[[nodiscard]] std::string option_of(planner::Field field);

/// Returns the option as a user types it: "--microbatches 8"; "no --recompute option" where nothing is to be stated.
[[nodiscard]] std::string option_text(const planner::FieldValue& value);
[[nodiscard]] std::vector<std::string> option_texts(const std::vector<planner::FieldValue>& values);

/// Returns the text with the option of each field that it names: "leave --split-size out" for "leave `split_size` out".
[[nodiscard]] std::string with_option_names(const std::string& text);
/// Does the same for an error. The `where` of a FieldError becomes the field's option.
[[nodiscard]] Error with_option_names(const Error& error);

}  // namespace mptune::reports
