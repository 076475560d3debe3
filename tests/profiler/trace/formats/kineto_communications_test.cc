#include "profiler/trace/formats/kineto_communications.h"

#include <gmock/gmock.h>

#include <string>

#include "profiler/trace/formats/kineto.h"

namespace mptune::profiler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

RankRecording read(const std::string& rows) {
  const std::string text = R"({"distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8}, "traceEvents": [)" + rows + "]}";
  TextInput input = text_in_memory(text.data(), text.size());
  return read_kineto_rank(input);
}

std::string row_of(const std::string& category, const std::string& name, double start, double duration, const std::string& args) {
  return R"({"ph": "X", "cat": ")" + category + R"(", "name": ")" + name + R"(", "pid": 9, "tid": 7, "ts": )" + std::to_string(start) +
         R"(, "dur": )" + std::to_string(duration) + R"(, "args": {)" + args + "}}";
}

std::string call(double start, int correlation) {
  return row_of("cuda_runtime", "cudaLaunchKernelExC", start, 2, R"("correlation": )" + std::to_string(correlation));
}

std::string kernel(const std::string& name, double start, int correlation, const std::string& more = "") {
  return row_of("kernel", name, start, 10, R"("device": 0, "stream": 20, "correlation": )" + std::to_string(correlation) + more);
}

std::string described(const std::string& operation, const std::string& more = "") {
  return R"("Collective name": ")" + operation +
         R"(", "In msg nelems": 6, "Out msg nelems": 5, "dtype": "BFloat16", "Process Group Name": "g", "Process Group Ranks": "[2, 3]")" +
         more;
}

TEST(KinetoCommunications, AreReadFromKernels) {
  const RankRecording recording =
      read(row_of("user_annotation", "ProfilerStep#4", 0, 100, "") + "," + call(10, 1) + "," + call(20, 2) + "," + kernel("gemm", 30, 1) +
           "," + kernel("ncclDevKernel_AllReduce_Sum", 41, 2, ", " + described("allreduce", R"(, "Seq": 17)")));
  EXPECT_EQ(recording.rank, 3);
  EXPECT_EQ(recording.ranks, 8);
  EXPECT_THAT(recording.communications,
              ElementsAre(Communication{
                  .operation = "allreduce", .group = "g [2, 3]", .members = {2, 3}, .sequence = 17, .step = 4, .bytes = 12, .event = 1}));
}

// Between ncclGroupStart and ncclGroupEnd nothing is launched; the one kernel of the group has no description of its own.
TEST(KinetoCommunications, MessagesOfAGroupComeBeforeTheirKernel) {
  const RankRecording recording =
      read(row_of("cpu_op", "record_param_comms", 10, 1, described("send", R"(, "Dst Rank": 2, "Seq": 1)")) + "," +
           row_of("cpu_op", "record_param_comms", 12, 1, described("recv", R"(, "Src Rank": 2, "Seq": 1)")) + "," + call(14, 1) + "," +
           row_of("cpu_op", "record_param_comms", 16, 1, described("wait")) + "," +
           row_of("cpu_op", "record_param_comms", 20, 9, described("send", R"(, "Dst Rank": 2, "Seq": 2)")) + "," + call(22, 2) + "," +
           kernel("ncclDevKernel_SendRecv", 40, 1) + "," + kernel("ncclDevKernel_SendRecv", 60, 2));
  ASSERT_EQ(recording.communications.size(), 3U);
  const Communication &send = recording.communications[0], &receive = recording.communications[1], &alone = recording.communications[2];
  EXPECT_EQ(send.kind, Communication::Kind::send);
  EXPECT_EQ(receive.kind, Communication::Kind::receive);
  EXPECT_EQ(send.event, receive.event);
  EXPECT_NE(send.event, alone.event);
  EXPECT_EQ(send.bytes, 12);
  EXPECT_EQ(receive.bytes, 10) << "what it takes";
  EXPECT_EQ(send.peer, 2);
  EXPECT_EQ(alone.sequence, 2);
}

TEST(KinetoCommunications, AKernelsOwnDescriptionCounts) {
  const RankRecording recording =
      read(row_of("cpu_op", "record_param_comms", 10, 5, described("allreduce", R"(, "Seq": 1)")) + "," + call(12, 1) + "," +
           kernel("ncclDevKernel_AllReduce", 40, 1, ", " + described("allreduce", R"(, "Seq": 1)")));
  EXPECT_EQ(recording.communications.size(), 1U);
}

TEST(KinetoCommunications, OfThreadsAreKeptApart) {
  std::string other = row_of("cpu_op", "record_param_comms", 5, 1, described("send", R"(, "Dst Rank": 2)"));
  other.replace(other.find(R"("tid": 7)"), 8, R"("tid": 8)");
  const RankRecording recording = read(other + "," + call(12, 1) + "," + kernel("ncclDevKernel_SendRecv", 40, 1));
  EXPECT_THAT(recording.communications, IsEmpty());
}

std::string range(const std::string& name, double start, double duration) {
  return row_of("user_annotation", name, start, duration, "");
}

TEST(KinetoCommunications, RangesNameWhatNothingDescribes) {
  const RankRecording recording =
      read(range("nccl:all_to_all", 10, 9) + "," + call(12, 1) + "," + call(14, 2) + "," + range("nccl:coalesced", 20, 9) + "," +
           range("nccl:send 3->4", 21, 1) + "," + range("nccl:recv 3<-2", 23, 1) + "," + call(25, 3) + "," + call(40, 4) + "," +
           kernel("ncclDevKernel_SendRecv", 30, 1) + "," + kernel("ncclDevKernel_SendRecv", 40, 2) + "," +
           kernel("ncclDevKernel_SendRecv", 60, 3) + "," + kernel("ncclDevKernel_AllReduce", 80, 4));
  ASSERT_EQ(recording.communications.size(), 4U) << "of the last kernel nothing is known";
  for (const Communication& one : recording.communications) EXPECT_FALSE(one.described);
  EXPECT_EQ(recording.communications[0].operation, "all_to_all");
  EXPECT_EQ(recording.communications[1].operation, "all_to_all") << "its second kernel";
  EXPECT_EQ(recording.communications[1].event, 1);
  EXPECT_EQ(recording.communications[2].kind, Communication::Kind::send);
  EXPECT_EQ(recording.communications[2].own, 3);
  EXPECT_EQ(recording.communications[2].peer, 4);
  EXPECT_EQ(recording.communications[3].kind, Communication::Kind::receive);
  EXPECT_EQ(recording.communications[3].peer, 2);
}

TEST(KinetoCommunications, DescriptionsCountBeforeRanges) {
  const RankRecording recording =
      read(row_of("cpu_op", "record_param_comms", 9, 5, described("allreduce", R"(, "Seq": 1)")) + "," + range("nccl:all_reduce", 10, 3) +
           "," + call(12, 1) + "," + range("nccl:all_reduce", 20, 3) + "," + call(22, 2) + "," + kernel("ncclDevKernel_AllReduce", 40, 1) +
           "," + kernel("ncclDevKernel_AllReduce", 60, 2, ", " + described("allreduce", R"(, "Seq": 2)")));
  ASSERT_EQ(recording.communications.size(), 2U);
  for (const Communication& one : recording.communications) EXPECT_TRUE(one.described);
}

TEST(RanksIn, AreReadWhole) {
  EXPECT_THAT(ranks_in("[0, 1, 12]"), ElementsAre(0, 1, 12));
  EXPECT_THAT(ranks_in("[5]"), ElementsAre(5));
  for (const char* text : {"", "[", "[]", "[0, 1, ..., 63]", "0, 1", "[-1]", "[1,,2]", "[99999999999999999999]", "[1048576]", "[1.5]"})
    EXPECT_THAT(ranks_in(text), IsEmpty()) << text;
}

TEST(BytesOfType, KnowsPyTorchsNames) {
  EXPECT_EQ(bytes_of_type("Float"), 4);
  EXPECT_EQ(bytes_of_type("BFloat16"), 2);
  EXPECT_EQ(bytes_of_type("Float8_e4m3fn"), 1);
  EXPECT_EQ(bytes_of_type("Quaternion"), 0);
}

}  // namespace
}  // namespace mptune::profiler
