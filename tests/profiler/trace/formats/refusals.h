#pragma once

#include <functional>
#include <string>

#include "profiler/trace/formats/text_input.h"
#include "tests/support/error_of.h"

namespace mptune::testing {

/// Place and message of the Error that `read` throws for a text: "memory:3: the message". Fails the test if there is none.
inline std::string refusal_of_text(const std::function<void(profiler::TextInput&)>& read, const std::string& text) {
  const ::testing::ScopedTrace trace(__FILE__, __LINE__, text.substr(0, 200));
  return refusal_of([&] {
    profiler::TextInput input = profiler::text_in_memory(text.data(), text.size());
    read(input);
  });
}

}  // namespace mptune::testing
