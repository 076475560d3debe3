#include "profiler/base/library_message.h"

#include <gtest/gtest.h>

namespace mptune {
namespace {

TEST(LibraryMessage, IsWhatTheUserCanActOn) {
  EXPECT_EQ(library_message("shape '[3]' is invalid for input of size 4\nException raised from view"),
            "shape '[3]' is invalid for input of size 4");
  EXPECT_EQ(library_message("\n  \nUnknown builtin op: a::b.\nmore"), "Unknown builtin op: a::b.");
  EXPECT_EQ(library_message(
                "0 INTERNAL ASSERT FAILED at \"/pytorch/aten/src/ATen/core/ivalue.h\":663, please report a bug to PyTorch. expected int"),
            "expected int");
  EXPECT_EQ(library_message("type.present() INTERNAL ASSERT FAILED at \"parser.cpp\":531, please report a bug to PyTorch. "),
            "a check inside the library failed");
  EXPECT_EQ(library_message("[enforce fail at inline_container.cc:149] . PytorchStreamReader failed reading zip archive"),
            "PytorchStreamReader failed reading zip archive");
  EXPECT_EQ(library_message("[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:1234"),
            "Connection closed by peer [127.0.0.1]:1234");
  EXPECT_EQ(library_message("[3, 4] is no shape"), "[3, 4] is no shape");
  EXPECT_EQ(library_message("CUDA error: out of memory"), "CUDA error: out of memory");
  for (const char* empty : {"", " \n\n", "Exception raised from f"}) EXPECT_EQ(library_message(empty), "no reason is given");
}

}  // namespace
}  // namespace mptune
