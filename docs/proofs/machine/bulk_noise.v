(* The law of the bulk sampler (docs/proofs/bulk-noise.md, sections 1 and 2), for every table.

   A table has N cells, of which each block owns some, with the levels 0, 1, ..., E - 1. A candidate
   is a uniform cell, a uniform place among the w integers of its block and a fair sign. The curve at
   the integer it stands for has the height c, counted in cells. The lowest A cells of a block are
   sure: they accept at once. A crossed cell of level i accepts if i + U < c for a uniform U. The tail
   cell stands for all integers behind the last block.

   Proved: every integer that a block holds, and every integer of the tail, is accepted by one
   candidate with probability c/(2 N w) per sign, whatever N, w, E and A are, as long as
   0 <= A <= c <= E; the first accepted of any number of candidates is in proportion to c; and a
   comparison of digits decides as the exact one does. Zero is kept with one sign alone, so that each
   integer has this chance once. Not covered: that the code computes A, E and its bounds of the curve
   as stated (tests/noise/test_bulk_law.py tries every cell), the float that decides far from the
   curve, and the source of words. *)

From Coq Require Import Reals Lra Lia.
Local Open Scope R_scope.

(* --- sums over 0, ..., n - 1 ------------------------------------------------------------------- *)
Fixpoint total (n : nat) (f : nat -> R) : R :=
  match n with O => 0 | S m => total m f + f m end.

Lemma total_scaled : forall n f a, total n (fun i => a * f i) = a * total n f.
Proof. induction n as [| n IH]; intros f a; simpl; [ring | rewrite IH; ring]. Qed.

Lemma total_equal : forall n f g,
  (forall i, (i < n)%nat -> f i = g i) -> total n f = total n g.
Proof.
  induction n as [| n IH]; intros f g H; simpl; [reflexivity |].
  rewrite (IH f g), (H n); [reflexivity | lia |]. intros i Hi. apply H. lia.
Qed.

(* --- one block --------------------------------------------------------------------------------- *)
(* P(U < x) for U uniform on [0, 1). *)
Definition chance (x : R) : R := Rmax 0 (Rmin 1 x).

(* What a cell of level i does where the curve has height c, if the lowest A cells are sure. *)
Definition accepted (A : nat) (c : R) (i : nat) : R :=
  if (i <? A)%nat then 1 else chance (c - INR i).

Lemma levels_make_the_height : forall E c, 0 <= c ->
  total E (fun i => chance (c - INR i)) = Rmin c (INR E).
Proof.
  induction E as [| E IH]; intros c Hc.
  - simpl. rewrite Rmin_right; lra.
  - change (total (S E) (fun i => chance (c - INR i)))
      with (total E (fun i => chance (c - INR i)) + chance (c - INR E)).
    rewrite IH, S_INR by assumption. unfold chance, Rmax, Rmin.
    repeat destruct Rle_dec; lra.
Qed.

Lemma sure_cells_are_certain : forall A c i, INR A <= c -> accepted A c i = chance (c - INR i).
Proof.
  intros A c i HA. unfold accepted. destruct (Nat.ltb_spec i A) as [Hi | Hi]; [| reflexivity].
  assert (H : INR i + 1 <= INR A) by (rewrite <- S_INR; apply le_INR; lia).
  unfold chance, Rmax, Rmin. repeat destruct Rle_dec; lra.
Qed.

Theorem a_block_accepts_its_height : forall A E c,
  INR A <= c -> c <= INR E -> total E (accepted A c) = c.
Proof.
  intros A E c HA HE.
  assert (Hc : 0 <= c) by (pose proof (pos_INR A); lra).
  rewrite (total_equal _ _ (fun i => chance (c - INR i))).
  - rewrite levels_make_the_height by assumption. apply Rmin_left. assumption.
  - intros i _. apply sure_cells_are_certain. assumption.
Qed.

(* --- one candidate ----------------------------------------------------------------------------- *)
(* Sign 1/2, cell 1/N, place 1/w; E cells of the block lead to the integer. *)
Definition of_block (N w A E : nat) (c : R) : R :=
  total E (fun i => / 2 * / INR N * / INR w * accepted A c i).

Theorem a_candidate_of_a_block : forall N w A E c,
  (0 < N)%nat -> (0 < w)%nat -> INR A <= c -> c <= INR E ->
  of_block N w A E c = c / (2 * INR N * INR w).
Proof.
  intros N w A E c HN Hw HA HE. unfold of_block.
  rewrite total_scaled, a_block_accepts_its_height by assumption.
  assert (INR N <> 0) by (apply not_0_INR; lia).
  assert (INR w <> 0) by (apply not_0_INR; lia).
  field. split; assumption.
Qed.

(* The tail cell: step m by m ones before the first zero, a place among s w integers, then a
   comparison with c times s 2^(m+1). *)
Definition of_tail (N w s m : nat) (c : R) : R :=
  / 2 * / INR N * / 2 ^ (m + 1) * / (INR s * INR w) * chance (c * INR s * 2 ^ (m + 1)).

Theorem a_candidate_of_the_tail : forall N w s m c,
  (0 < N)%nat -> (0 < w)%nat -> (0 < s)%nat -> 0 <= c -> c * INR s * 2 ^ (m + 1) <= 1 ->
  of_tail N w s m c = c / (2 * INR N * INR w).
Proof.
  intros N w s m c HN Hw Hs Hc H1. unfold of_tail.
  assert (INR N <> 0) by (apply not_0_INR; lia).
  assert (INR w <> 0) by (apply not_0_INR; lia).
  assert (Hs' : 0 < INR s) by (apply lt_0_INR; assumption).
  assert (Hp : 0 < 2 ^ (m + 1)) by (apply pow_lt; lra).
  assert (0 <= c * INR s * 2 ^ (m + 1)).
  { apply Rmult_le_pos; [apply Rmult_le_pos |]; lra. }
  replace (chance (c * INR s * 2 ^ (m + 1))) with (c * INR s * 2 ^ (m + 1)).
  - field. repeat split; try assumption; lra.
  - unfold chance, Rmax, Rmin. repeat destruct Rle_dec; lra.
Qed.

(* --- what is drawn ----------------------------------------------------------------------------- *)
(* The chance that the first accepted of n candidates is a value of chance q, if one candidate is
   accepted with chance p. *)
Fixpoint first_of (n : nat) (p q : R) : R :=
  match n with O => 0 | S m => q + (1 - p) * first_of m p q end.

Theorem the_first_accepted : forall n p q,
  p <> 0 -> first_of n p q = q / p * (1 - (1 - p) ^ n).
Proof.
  induction n as [| n IH]; intros p q Hp; simpl; [| rewrite IH by assumption]; field; assumption.
Qed.

Theorem the_law_is_the_curve : forall n N w p c d,
  (0 < N)%nat -> (0 < w)%nat -> p <> 0 ->
  first_of n p (c / (2 * INR N * INR w)) * d = first_of n p (d / (2 * INR N * INR w)) * c.
Proof.
  intros n N w p c d HN Hw Hp. rewrite !the_first_accepted by assumption.
  assert (INR N <> 0) by (apply not_0_INR; lia).
  assert (INR w <> 0) by (apply not_0_INR; lia).
  field. repeat split; assumption.
Qed.

(* --- digits ------------------------------------------------------------------------------------ *)
(* U begins with the b bits of u; low and high enclose 2^(b + g) e. Both ways to decide are right
   for every U that begins so. *)
Theorem digits_accept : forall (b g : nat) (u i C e low U : R),
  0 <= C -> u / 2 ^ b <= U < (u + 1) / 2 ^ b -> low <= 2 ^ (b + g) * e ->
  (i * 2 ^ b + u + 1) * 2 ^ g <= C * low -> i + U < C * e.
Proof.
  intros b g u i C e low U HC [_ HU] Hlow H.
  assert (Hb : 0 < 2 ^ b) by (apply pow_lt; lra).
  assert (Hg : 0 < 2 ^ g) by (apply pow_lt; lra).
  rewrite pow_add in Hlow.
  assert (H1 : (i * 2 ^ b + u + 1) * 2 ^ g <= C * e * 2 ^ b * 2 ^ g).
  { apply Rle_trans with (C * low); [assumption |].
    replace (C * e * 2 ^ b * 2 ^ g) with (C * (2 ^ b * 2 ^ g * e)) by ring.
    apply Rmult_le_compat_l; assumption. }
  apply Rmult_le_reg_r in H1; [| assumption].
  assert (H2 : U * 2 ^ b < u + 1).
  { replace (u + 1) with ((u + 1) / 2 ^ b * 2 ^ b) by (field; lra).
    apply Rmult_lt_compat_r; assumption. }
  apply Rmult_lt_reg_r with (2 ^ b); [assumption | lra].
Qed.

Theorem digits_refuse : forall (b g : nat) (u i C e high U : R),
  0 <= C -> u / 2 ^ b <= U < (u + 1) / 2 ^ b -> 2 ^ (b + g) * e <= high ->
  C * high <= (i * 2 ^ b + u) * 2 ^ g -> C * e <= i + U.
Proof.
  intros b g u i C e high U HC [HU _] Hhigh H.
  assert (Hb : 0 < 2 ^ b) by (apply pow_lt; lra).
  assert (Hg : 0 < 2 ^ g) by (apply pow_lt; lra).
  rewrite pow_add in Hhigh.
  assert (H1 : C * e * 2 ^ b * 2 ^ g <= (i * 2 ^ b + u) * 2 ^ g).
  { apply Rle_trans with (C * high); [| assumption].
    replace (C * e * 2 ^ b * 2 ^ g) with (C * (2 ^ b * 2 ^ g * e)) by ring.
    apply Rmult_le_compat_l; assumption. }
  apply Rmult_le_reg_r in H1; [| assumption].
  assert (H2 : u <= U * 2 ^ b).
  { replace u with (u / 2 ^ b * 2 ^ b) at 1 by (field; lra).
    apply Rmult_le_compat_r; [lra | assumption]. }
  apply Rmult_le_reg_r with (2 ^ b); [assumption | lra].
Qed.
