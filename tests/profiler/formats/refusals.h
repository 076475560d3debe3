#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "mptune/profiler/formats/text_input.h"
#include "mptune/profiler/trace/error.h"

namespace mptune::testing {

/// Where and what `read` refuses in a text: "memory:3: the message"; a text that is read after all fails the test.
inline std::string refusal_of_text(const std::function<void(TextInput&)>& read, const std::string& text) {
  TextInput input = text_in_memory(text.data(), text.size());
  try {
    read(input);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_FALSE(error.remedy().empty());
    const std::string message = error.where() + ": " + error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos);
    return message;
  }
  ADD_FAILURE() << "accepted: " << text.substr(0, 200);
  return {};
}

}  // namespace mptune::testing
