#include "data/images/jpeg_entropy.h"

// jpeglib.h needs FILE and size_t declared before it, and gives its inner interfaces with this.
#include <cstddef>
#include <cstdio>
#define JPEG_INTERNALS
#include <jpeglib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace trainer::data {
namespace {

constexpr int kLongestCode = 16;
constexpr int kDcBits = 9;   // looked up at once
constexpr int kAcBits = 10;  // two tables of 12 KiB
constexpr int kEndOfBlock = 64;
constexpr int kMostBlocks = D_MAX_BLOCKS_IN_MCU;
// What one MCU can take at most, so that reading past the end stays inside the buffer until it is
// noticed: 16 bits of code and 15 of value for each coefficient.
constexpr std::size_t kPadding = kMostBlocks * DCTSIZE2 * 4 + 16;

// Positions in a block in the order of the codes (T.81 figure A.6), and as many again as a run may
// point past the end.
constexpr std::array<std::uint8_t, DCTSIZE2 + 16> kNatural = [] {
  std::array<std::uint8_t, DCTSIZE2 + 16> order{};
  int row = 0, column = 0;
  for (int k = 0; k < DCTSIZE2; ++k) {
    order[static_cast<std::size_t>(k)] = static_cast<std::uint8_t>(row * DCTSIZE + column);
    const bool up = (row + column) % 2 == 0;
    if (up ? column == DCTSIZE - 1 : row != DCTSIZE - 1 && column == 0) {
      ++row;
    } else if (up ? row == 0 : row == DCTSIZE - 1) {
      ++column;
    } else {
      row += up ? -1 : 1;
      column += up ? 1 : -1;
    }
  }
  for (std::size_t k = DCTSIZE2; k < order.size(); ++k) order[k] = DCTSIZE2 - 1;
  return order;
}();

// The bits of the scan, stuffed bytes taken out. The highest bits of `window` come next; `count` of
// them are known to be there.
struct BitReader {
  const std::uint8_t* next = nullptr;
  std::uint64_t ahead = 0;  // the bytes at `next`, read before they are needed: memory is slow
  std::uint64_t window = 0;
  int count = 0;

  void start(const std::uint8_t* at) {
    *this = {at, load(at), 0, 0};
    refill();
  }
  static std::uint64_t load(const std::uint8_t* at) {
    std::uint64_t bytes;
    std::memcpy(&bytes, at, sizeof bytes);
    return std::endian::native == std::endian::little ? __builtin_bswap64(bytes) : bytes;
  }
  // Brings `count` to 56 or more. Bits that do not count yet are read again, and are the same.
  void refill() {
    window |= ahead >> count;
    next += (63 - count) >> 3;
    count |= 56;
    ahead = load(next);
  }
  unsigned peek(int bits) const { return static_cast<unsigned>(window >> (64 - bits)); }
  void skip(int bits) {
    window <<= bits;
    count -= bits;
  }
  // The value of `size` (1 to 15) bits that stands after `before` others, as T.81 figure F.12
  // extends it. No branch: signs cannot be foreseen.
  int value(int before, int size) const {
    const std::uint64_t from = window << before;
    const auto read = static_cast<int>(from >> (64 - size));
    const auto negative = static_cast<int>(~from >> 63);
    return read - (negative << size) + negative;
  }
};

// The codes of one table (T.81 annex C).
struct Codes {
  JHUFF_TBL made_from{};
  std::array<std::int32_t, kLongestCode + 2> largest{};  // code of each length; -1: none
  std::array<std::int32_t, kLongestCode + 1> offset{};   // from a code to its place in huffval

  struct Found {
    int length = 0;  // 0: the bits are no code
    unsigned symbol = 0;
  };

  // Whether the codes are others than before.
  bool set(const JHUFF_TBL& table) {
    if (std::memcmp(made_from.bits, table.bits, sizeof table.bits) == 0 &&
        std::memcmp(made_from.huffval, table.huffval, sizeof table.huffval) == 0)
      return false;
    made_from = table;
    std::int32_t code = 0, place = 0;
    for (std::size_t length = 1; length <= kLongestCode; ++length) {
      offset[length] = place - code;
      place += table.bits[length];
      code += table.bits[length];
      largest[length] = table.bits[length] > 0 ? code - 1 : -1;
      code <<= 1;
    }
    return true;
  }

  // Calls `with(begin, end, found)` for every code of at most `Bits` bits, with the range of the
  // numbers of that many bits that start with it.
  template <int Bits, class With>
  void fill(const With& with) const {
    for (int length = 1; length <= Bits; ++length) {
      const auto at = static_cast<std::size_t>(length);
      for (std::int32_t code = largest[at] - made_from.bits[at] + 1; code <= largest[at]; ++code) {
        const auto begin = static_cast<std::size_t>(code) << (Bits - length);
        const auto end = static_cast<std::size_t>(code + 1) << (Bits - length);
        if (end > std::size_t{1} << Bits) return;
        with(begin, end,
             Found{length, made_from.huffval[static_cast<std::size_t>(code + offset[at])]});
      }
    }
  }
  // The code at the start of 16 bits.
  Found find(unsigned bits) const {
    for (int length = 1; length <= kLongestCode; ++length) {
      const auto code = static_cast<std::int32_t>(bits >> (kLongestCode - length));
      const auto at = static_cast<std::size_t>(length);
      if (code > largest[at]) continue;
      const auto place = static_cast<std::size_t>(code + offset[at]);
      return {length, place < 256 ? made_from.huffval[place] : 0U};
    }
    return {};
  }
};

// Differences of the first coefficients: a code for the number of bits that follow.
struct DcTable {
  Codes codes;
  struct Entry {
    std::uint8_t length = 0;  // 0: not in this table
    std::uint8_t size = 0;
  };
  std::array<Entry, 1 << kDcBits> entries{};

  void set(const JHUFF_TBL& table) {
    if (!codes.set(table)) return;
    entries.fill({});
    codes.fill<kDcBits>([this](std::size_t begin, std::size_t end, const Codes::Found& found) {
      std::fill(
          entries.begin() + begin, entries.begin() + end,
          Entry{static_cast<std::uint8_t>(found.length), static_cast<std::uint8_t>(found.symbol)});
    });
  }
  // False where the bits are no code.
  bool read(BitReader& bits, int& difference) const {
    bits.refill();
    Entry entry = entries[bits.peek(kDcBits)];
    if (entry.length == 0) [[unlikely]] {
      const Codes::Found found = codes.find(bits.peek(kLongestCode));
      if (found.length == 0 || found.symbol > 15) return false;
      entry = {static_cast<std::uint8_t>(found.length), static_cast<std::uint8_t>(found.symbol)};
    }
    difference = entry.size == 0 ? 0 : bits.value(entry.length, entry.size);
    bits.skip(entry.length + entry.size);
    return true;
  }
};

// The other coefficients: a code for a run of zeros and the number of bits of the value after it.
struct AcTable {
  Codes codes;
  struct Single {
    std::uint8_t total = 0;    // bits of code and value
    std::uint8_t length = 0;   // of the code; 0: not in this table
    std::uint8_t size = 0;     // of the value
    std::uint8_t advance = 0;  // coefficients: the run and one; kEndOfBlock for the end
  };
  // Up to two values with their codes, and the end of the block where it fits as well. The end
  // alone counts as a value 0.
  struct Pair {
    std::int16_t first = 0, second = 0;
    std::uint8_t total = 0;          // bits; 0: not even one value fits
    std::uint8_t advance_first = 0;  // coefficients
    std::uint8_t advance = 0;        // of both
    bool ends = false;
  };
  std::array<Single, 1 << kAcBits> singles{};
  std::array<Pair, 1 << kAcBits> pairs{};

  static Single single_of(const Codes::Found& found) {
    if (found.length == 0) return {};
    const unsigned run = found.symbol >> 4;
    const unsigned size = found.symbol & 15;
    // Without a value, a run of 15 is one of 16; any other is the end, as libjpeg has it.
    const bool end = size == 0 && run != 15;
    const auto length = static_cast<unsigned>(found.length);
    return {static_cast<std::uint8_t>(length + size), static_cast<std::uint8_t>(length),
            static_cast<std::uint8_t>(size),
            static_cast<std::uint8_t>(end ? kEndOfBlock : run + 1)};
  }

  void set(const JHUFF_TBL& table) {
    if (!codes.set(table)) return;
    singles.fill({});
    codes.fill<kAcBits>([this](std::size_t begin, std::size_t end, const Codes::Found& found) {
      std::fill(singles.begin() + begin, singles.begin() + end, single_of(found));
    });
    for (unsigned i = 0; i < pairs.size(); ++i) pairs[i] = pair_of(i);
  }

  Pair pair_of(unsigned bits) const {
    Pair pair;
    BitReader rest{nullptr, 0, std::uint64_t{bits} << (64 - kAcBits), 64};
    for (int values = 0; values <= 2; ++values) {
      // Bits that are missing count as zeros here, so what was found must fit in those that are
      // not.
      const Single single = singles[rest.peek(kAcBits)];
      if (single.length == 0 || pair.total + single.total > kAcBits) break;
      if (single.advance == kEndOfBlock) {
        pair.ends = true;
        if (values == 0) pair.advance = pair.advance_first = 1;
      } else if (single.size == 0 || values == 2) {
        break;
      } else {
        const auto value = static_cast<std::int16_t>(rest.value(single.length, single.size));
        pair.second = value;
        pair.advance = static_cast<std::uint8_t>(pair.advance + single.advance);
        if (values == 0) {
          pair.first = value;
          pair.advance_first = single.advance;
        }
      }
      pair.total = static_cast<std::uint8_t>(pair.total + single.total);
      if (pair.ends) break;
      rest.skip(single.total);
    }
    return pair;
  }

  // The next code, whatever its length; its `length` is 0 where the bits are none.
  Single find(const BitReader& bits) const {
    const Single single = singles[bits.peek(kAcBits)];
    return single.length != 0 ? single : single_of(codes.find(bits.peek(kLongestCode)));
  }

  // Reads the coefficients 1 to 63 into `block`, which is zero; passes over them where it is null.
  // False where they are damaged.
  template <bool Keep>
  bool read(BitReader& reader, JCOEF* block) const {
    BitReader bits = reader;
    int k = 1;
    bool whole = true;
    while (k < DCTSIZE2) {
      bits.refill();
      // The bits suffice for two look-ups and one code that is not in the table.
      const bool ended = take_pair<Keep>(bits, block, k) && take_pair<Keep>(bits, block, k);
      if (ended) continue;
      if (k >= DCTSIZE2) break;
      const Single single = find(bits);
      if (single.length == 0) {
        whole = false;
        break;
      }
      k += single.advance;
      if (single.size != 0 && Keep) put(block, k, bits.value(single.length, single.size));
      bits.skip(single.total);
      if (single.advance == kEndOfBlock) k = DCTSIZE2;
    }
    reader = bits;
    return whole && k == DCTSIZE2;
  }

  // False where a pair cannot be taken, or the block has ended: `k` says which.
  template <bool Keep>
  bool take_pair(BitReader& bits, JCOEF* block, int& k) const {
    const Pair pair = pairs[bits.peek(kAcBits)];
    const int next = k + pair.advance;
    // A block whose last coefficient is not zero has no mark of its end.
    if (pair.total == 0 || next >= DCTSIZE2) [[unlikely]]
      return false;
    if constexpr (Keep) {
      // Of a single value the same place is written twice.
      put(block, next, pair.second);
      put(block, k + pair.advance_first, pair.first);
    }
    bits.skip(pair.total);
    k = pair.ends ? DCTSIZE2 : next;
    return !pair.ends;
  }

  // The coefficient before position `k`.
  static void put(JCOEF* block, int k, int value) {
    block[kNatural[static_cast<std::size_t>(k - 1)]] = static_cast<JCOEF>(value);
  }
};

// Whether the picture is of the kind that is read here: Huffman codes, 8 bits, one scan with
// everything in it.
bool can_read(const jpeg_decompress_struct& info) {
  return info.arith_code == FALSE && info.progressive_mode == FALSE && info.data_precision == 8 &&
         info.comps_in_scan == info.num_components && info.inputctl->has_multiple_scans == FALSE &&
         info.Ss == 0 && info.Se == DCTSIZE2 - 1 && info.Ah == 0 && info.Al == 0 &&
         info.blocks_in_MCU <= kMostBlocks;
}

}  // namespace

struct JpegEntropy::State {
  struct BlockKind {
    const DcTable* dc = nullptr;
    const AcTable* ac = nullptr;
    std::size_t component = 0;
  };

  std::array<DcTable, NUM_HUFF_TBLS> dc;
  std::array<AcTable, NUM_HUFF_TBLS> ac;
  std::array<BlockKind, kMostBlocks> kinds;
  std::size_t blocks = 0;
  std::array<int, MAX_COMPS_IN_SCAN> predictions{};

  std::vector<std::uint8_t> data;     // the scan without stuffed bytes and markers, and padding
  std::vector<std::size_t> segments;  // where each restart interval ends in `data`
  std::size_t segment = 0;

  BitReader bits;
  unsigned restart_interval = 0, until_restart = 0;
  JDIMENSION columns = 0, column = 0;  // MCUs of a row; the next one
  JDIMENSION first = 0, last = 0;      // the columns that are needed

  bool set_tables(const jpeg_decompress_struct& info) {
    blocks = static_cast<std::size_t>(info.blocks_in_MCU);
    for (std::size_t i = 0; i < blocks; ++i) {
      const auto component = static_cast<std::size_t>(info.MCU_membership[i]);
      const jpeg_component_info& part = *info.cur_comp_info[component];
      const auto dc_at = static_cast<std::size_t>(part.dc_tbl_no);
      const auto ac_at = static_cast<std::size_t>(part.ac_tbl_no);
      if (dc_at >= NUM_HUFF_TBLS || ac_at >= NUM_HUFF_TBLS) return false;
      if (info.dc_huff_tbl_ptrs[dc_at] == nullptr || info.ac_huff_tbl_ptrs[ac_at] == nullptr)
        return false;
      dc[dc_at].set(*info.dc_huff_tbl_ptrs[dc_at]);
      ac[ac_at].set(*info.ac_huff_tbl_ptrs[ac_at]);
      kinds[i] = {&dc[dc_at], &ac[ac_at], component};
    }
    return true;
  }

  // Copies the scan up to its end without stuffing; false where the restart markers do not count up
  // as they must.
  bool unstuff(Bytes scan) {
    segments.clear();
    data.resize(scan.size() + kPadding);
    const std::uint8_t* from = scan.data();
    const std::uint8_t* const end = from + scan.size();
    std::uint8_t* to = data.data();
    while (true) {
      const std::uint8_t* stop = copy_until_marker(from, end, to);
      from = stop + 2;
      if (stop + 1 >= end) break;
      if (stop[1] == 0) {
        *to++ = 0xFF;
      } else if (stop[1] == JPEG_RST0 + static_cast<int>(segments.size() % 8)) {
        segments.push_back(static_cast<std::size_t>(to - data.data()));
      } else if (stop[1] == JPEG_EOI) {
        break;
      } else {
        return false;  // fill bytes, or what should not stand here
      }
    }
    segments.push_back(static_cast<std::size_t>(to - data.data()));
    std::memset(to, 0, kPadding);
    return true;
  }

  // Copies up to the next byte 255, or to `end`, eight bytes at a time; returns where it stopped.
  // May write eight bytes more than it copies.
  static const std::uint8_t* copy_until_marker(const std::uint8_t* from, const std::uint8_t* end,
                                               std::uint8_t*& to) {
    while (end - from >= 8) {
      std::uint64_t bytes;
      std::memcpy(&bytes, from, 8);
      std::memcpy(to, &bytes, 8);
      // The highest bit of each byte that is 255.
      const std::uint64_t all_ones =
          bytes & ((bytes & 0x7F7F7F7F7F7F7F7FULL) + 0x0101010101010101ULL) & 0x8080808080808080ULL;
      if (all_ones != 0) {
        const int before = std::endian::native == std::endian::little
                               ? std::countr_zero(all_ones) / 8
                               : std::countl_zero(all_ones) / 8;
        to += before;
        return from + before;
      }
      from += 8;
      to += 8;
    }
    while (from < end && *from != 0xFF) *to++ = *from++;
    return from;
  }

  // Bits that were read past the end of the segment do not exist.
  bool within_segment() const {
    const auto read = (bits.next - data.data()) * 8 - bits.count;
    return read <= static_cast<std::ptrdiff_t>(segments[segment]) * 8;
  }

  bool restart() {
    if (segment + 1 >= segments.size()) return false;
    bits.start(data.data() + segments[segment]);
    ++segment;
    predictions.fill(0);
    until_restart = restart_interval;
    return true;
  }

  bool read_mcu(JBLOCKROW* targets) {
    if (restart_interval > 0 && until_restart == 0 && !restart()) return false;
    const bool needed = targets != nullptr && column >= first && column <= last;
    if (++column == columns) column = 0;
    for (std::size_t i = 0; i < blocks; ++i) {
      const BlockKind& kind = kinds[i];
      int difference = 0;
      if (!kind.dc->read(bits, difference)) return false;
      int& prediction = predictions[kind.component];
      prediction += difference;
      if (prediction < std::numeric_limits<JCOEF>::min() ||
          prediction > std::numeric_limits<JCOEF>::max())
        return false;
      if (needed && targets[i] != nullptr) {
        JCOEF* block = targets[i][0];
        block[0] = static_cast<JCOEF>(prediction);
        if (!kind.ac->read<true>(bits, block)) return false;
      } else if (!kind.ac->read<false>(bits, nullptr)) {
        return false;
      }
    }
    --until_restart;
    return within_segment();
  }
};

JpegEntropy::JpegEntropy() : state_(std::make_unique<State>()) {}
JpegEntropy::~JpegEntropy() = default;

void JpegEntropy::take_over(jpeg_decompress_struct& info, Bytes scan) {
  State& state = *state_;
  if (!can_read(info) || !state.set_tables(info) || !state.unstuff(scan)) return;
  state.bits.start(state.data.data());
  state.segment = 0;
  state.predictions.fill(0);
  state.restart_interval = state.until_restart = info.restart_interval;
  state.columns = info.MCUs_per_row;
  state.column = 0;
  state.first = info.master->first_iMCU_col;
  state.last = info.master->last_iMCU_col;
  info.client_data = this;
  info.entropy->decode_mcu = [](j_decompress_ptr picture, JBLOCKROW* targets) -> boolean {
    auto& self = *static_cast<JpegEntropy*>(picture->client_data);
    if (self.state_->read_mcu(targets)) return TRUE;
    self.gave_up_ = true;
    picture->err->error_exit(reinterpret_cast<j_common_ptr>(picture));
    return FALSE;
  };
}

}  // namespace trainer::data
