#include "daemon/logs.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "supervise/job_dir.h"
#include "supervise/output_reader.h"
#include "text/render.h"
#include "text/utf8.h"

namespace waybill::daemon {
namespace {

constexpr std::uint64_t kPageBytesMax = 1024 * 1024;
constexpr std::uint64_t kRenderedBytesMin = 4;  // a whole character
constexpr std::size_t kUnfinishedLineMax = std::size_t{32} * 1024;
constexpr std::uint64_t kTailLookBackMax = 4 * 1024 * 1024;

// Bytes between two gaps.
struct Stretch {
  std::uint64_t offset = 0;
  std::string bytes;
};

struct Read {
  std::vector<Stretch> stretches;
  std::vector<core::Gap> gaps;
  std::uint64_t offset = 0;
  std::uint64_t next_offset = 0;
  std::uint64_t end = 0;
  bool full = false;  // as many bytes as were asked for
};

Result<Read> read_stretches(supervise::OutputReader& reader, std::uint64_t offset,
                            std::uint64_t bytes_max) {
  Read read;
  read.offset = read.next_offset = offset;
  std::uint64_t left = bytes_max;
  while (left > 0) {
    TRY_ASSIGN(supervise::OutputPiece piece, reader.read(read.next_offset, left));
    read.end = piece.end;
    if (piece.gap) {
      read.gaps.push_back({piece.offset, piece.next_offset});
    } else if (piece.bytes.empty()) {
      break;
    } else {
      left -= std::min<std::uint64_t>(left, piece.bytes.size());
      if (read.stretches.empty() || (!read.gaps.empty() && read.gaps.back().to == piece.offset)) {
        read.stretches.push_back({piece.offset, {}});
      }
      read.stretches.back().bytes += piece.bytes;
    }
    read.next_offset = piece.next_offset;
  }
  // The end may have been seen before the last bytes were; an offset that nothing was read at may
  // lie beyond it.
  if (read.next_offset > offset) read.end = std::max(read.end, read.next_offset);
  read.full = left == 0;
  return read;
}

// Where the character begins that the last bytes leave unfinished; the size when they do not.
std::size_t end_of_whole_characters(std::string_view bytes) {
  constexpr std::size_t kTornMax = 3;
  for (std::size_t back = 1; back <= std::min(kTornMax, bytes.size()); ++back) {
    const std::size_t at = bytes.size() - back;
    if ((static_cast<unsigned char>(bytes[at]) & 0xC0U) == 0x80U) continue;
    const auto kind = text::first_character(bytes.substr(at)).kind;
    return kind == text::Character::Kind::incomplete ? at : bytes.size();
  }
  return bytes.size();
}

// How much of a line may be given out that has no newline yet: what comes next may rewind a line
// that holds a carriage return, and finish its last character. A line that is very long, or fills
// the page, is given out all the same.
std::size_t cut_of_unfinished_line(std::string_view line, bool full) {
  const bool waits = !full && line.size() <= kUnfinishedLineMax;
  if (waits && line.find('\r') != std::string_view::npos) return 0;
  return end_of_whole_characters(line);
}

// Ends a page that is not the last one after its last newline, else where nothing is torn.
void cut_for_text(Read& read) {
  if (read.stretches.empty()) return;
  Stretch& last = read.stretches.back();
  if (last.offset + last.bytes.size() != read.next_offset) return;  // ends with a gap
  const std::size_t newline = last.bytes.rfind('\n');
  const std::size_t cut =
      newline != std::string::npos ? newline + 1 : cut_of_unfinished_line(last.bytes, read.full);
  last.bytes.resize(cut);
  read.next_offset = last.offset + cut;
}

std::string gap_line(const core::Gap& gap) {
  return "[" + std::to_string(gap.to - gap.from) + " bytes, from " + std::to_string(gap.from) +
         ", were not kept]\n";
}

std::string render(const Read& read) {
  std::string data;
  auto gap = read.gaps.begin();
  const auto gaps_before = [&](std::uint64_t offset) {
    for (; gap != read.gaps.end() && gap->from < offset; ++gap) {
      if (!data.empty() && data.back() != '\n') data += '\n';
      data += gap_line(*gap);
    }
  };
  for (const Stretch& stretch : read.stretches) {
    gaps_before(stretch.offset);
    data += text::render(stretch.bytes);
  }
  gaps_before(read.next_offset);
  return data;
}

// Nothing on disk: not started yet, or ended without a byte.
LogsPage empty_page(const engine::OutputTarget& target, const edge::LogsRequest& request) {
  LogsPage page;
  page.reply.offset = page.reply.next_offset = request.offset.value_or(0);
  page.reply.rendered = !request.raw;
  page.reply.complete = target.terminal;
  page.nothing_new = !target.terminal;
  return page;
}

std::string expired_text(const engine::OutputTarget& target) {
  const bool quota = target.expired_why == "session_quota";
  return "The output of job " + target.job.str() + " expired at " +
         format_rfc3339(*target.expired_at) + ": " +
         (quota ? "its session had reached its disk quota (session_disk_quota_bytes)"
                : "the disk was short of space (free_space_floor_bytes)") +
         ", and its result had been heard. Its digest and its exit are kept.";
}

}  // namespace

Result<LogsPage> read_output(const engine::OutputTarget& target, const std::string& data_dir,
                             const edge::LogsRequest& request) {
  if (!supervise::is_job_dir_name(target.job.str())) {
    return fail(ErrorCode::state_corrupt, "the job's id is no name of a directory");
  }
  if (target.expired_at) return fail(ErrorCode::unavailable, expired_text(target));
  supervise::OutputReader reader(
      supervise::job_dir_path(data_dir, target.job),
      target.terminal ? std::optional<core::OutputFacts>(target.output) : std::nullopt);
  std::uint64_t offset = request.offset.value_or(0);
  if (!request.offset && request.tail_lines) {
    offset = reader.find_tail_offset(*request.tail_lines, kTailLookBackMax);
  }
  const std::uint64_t bytes_min = request.raw ? 0 : kRenderedBytesMin;
  auto read = read_stretches(reader, offset, std::clamp(request.bytes, bytes_min, kPageBytesMax));
  if (!read) {
    const bool nothing_written = !target.terminal || target.output.bytes == 0;
    if (read.error().code == ErrorCode::unavailable && nothing_written) {
      return empty_page(target, request);
    }
    return fail(std::move(read.error()));
  }
  const bool last = target.terminal && read->next_offset >= read->end;
  if (!request.raw && !last) cut_for_text(*read);
  LogsPage page;
  page.reply.offset = read->offset;
  page.reply.next_offset = read->next_offset;
  page.reply.end = read->end;
  page.reply.rendered = !request.raw;
  page.reply.complete = last;
  if (request.raw) {
    for (const Stretch& stretch : read->stretches) page.reply.data += stretch.bytes;
  } else {
    page.reply.data = render(*read);
  }
  page.nothing_new = read->next_offset == read->offset && !last;
  page.reply.gaps = std::move(read->gaps);
  return page;
}

Result<LogsPage> read_logs(engine::Queries& queries, const std::string& data_dir,
                           const edge::LogsRequest& request) {
  TRY_ASSIGN(const engine::OutputTarget target, queries.output(request.caller, request.job));
  return read_output(target, data_dir, request);
}

}  // namespace waybill::daemon
