#pragma once

#include <functional>
#include <string>

#include "mptune/profiler/formats/text_input.h"
#include "mptune/tests/support/error_of.h"

namespace mptune::testing {

/// Where and what `read` refuses in a text: "memory:3: the message"; a text that is read after all fails the test.
inline std::string refusal_of_text(const std::function<void(TextInput&)>& read, const std::string& text) {
  const ::testing::ScopedTrace trace(__FILE__, __LINE__, text.substr(0, 200));
  return refusal_of([&] {
    TextInput input = text_in_memory(text.data(), text.size());
    read(input);
  });
}

}  // namespace mptune::testing
