#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "reports/render/style.h"

namespace mptune::testing {

/// Compares with tests/reports/golden/NAME.txt; MPTUNE_UPDATE_GOLDEN=1 rewrites it.
inline void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(MPTUNE_SOURCE_DIR) + "/tests/reports/golden/" + name + ".txt";
  if (std::getenv("MPTUNE_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  std::ostringstream golden;
  golden << file.rdbuf();
  ASSERT_TRUE(file) << path;
  EXPECT_EQ(text, golden.str()) << "MPTUNE_UPDATE_GOLDEN=1 rewrites " << path;
}

/// No line is wider than `width` columns or ends in a blank. Commands to paste are never broken.
inline void expect_width(const std::string& text, int width) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool is_command = line.starts_with("mptune ") || line.starts_with("  mptune ");
    EXPECT_TRUE(is_command || reports::display_width(line) <= width) << line;
    EXPECT_TRUE(line.empty() || line.back() != ' ') << "blank at the end of '" << line << "'";
  }
}

/// The text without its escape sequences.
inline std::string without_colour(const std::string& colored) {
  std::string stripped;
  bool escape = false;
  for (const char c : colored) {
    escape = escape || c == '\x1b';
    if (!escape) stripped += c;
    escape = escape && c != 'm';
  }
  return stripped;
}

}  // namespace mptune::testing
